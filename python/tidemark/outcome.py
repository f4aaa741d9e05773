"""What people elsewhere learn of a run: its artifacts in one place, and a message when the state
changes.

The state is red or green, see `status.py`. A message is sent if it differs from the one that was
told last: it turned, or it is red for other reasons. What was told is in the lake, so where the
lake is temporary, as in a job, each run is told.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tidemark import paths, places
from tidemark.errors import ConfigError, TidemarkError, printable

ARTIFACTS_VARIABLE = "TIDEMARK_ARTIFACTS"
NOTIFY_VARIABLE = "TIDEMARK_NOTIFY"

# The files that dbt writes into the project's folder.
_FILES = ("target/run_results.json", "target/manifest.json", "logs/dbt.log")
# SNS takes 100 characters of a subject and 256 KiB of a message.
_SUBJECT, _MESSAGE = 100, 250_000
# A webhook or a command that takes longer has failed.
_SECONDS = 30
# The state that was told last, a file in the lake.
_TOLD = "told.json"
# The lines of the run that is publishing now, of a job's or of a command's.
_lines: ContextVar[list[str] | None] = ContextVar("lines", default=None)


@dataclass(frozen=True)
class Problem:
    """Something that needs attention, with the command for it. An error makes the state red.

    `kind` and `name` say which problem it is: unlike the text, they stay the same while it lasts.
    """

    kind: str
    name: str
    text: str
    command: str = ""
    is_error: bool = False

    @property
    def line(self) -> str:
        """The text and the command."""
        end = "" if self.text.endswith(".") else "."
        return f"{self.text}{end} Next: {self.command}" if self.command else self.text


@contextmanager
def published(run_id: str) -> Iterator[list[str]]:
    """Publish the end of the run in here to TIDEMARK_ARTIFACTS and TIDEMARK_NOTIFY.

    Gives the list that the run adds its lines to. Raises the error of the run, or else an error of
    publishing; an error of publishing after a failed run is printed. Inside another `published` it
    does nothing: the outer one, of a job, publishes.
    """
    outer = _lines.get()
    if outer is not None:
        yield outer
        return
    lines: list[str] = []
    began = time.time()
    token = _lines.set(lines)
    try:
        yield lines
    except Exception as error:
        lines.append(_message(error))
        try:
            _publish(run_id, "failed", [f"Run {run_id} failed", *lines], began)
        except TidemarkError as second:
            print(f"tidemark: {second}", file=sys.stderr)
        raise
    finally:
        _lines.reset(token)
    _publish(run_id, "succeeded", [f"Run {run_id} succeeded", *lines], began)


def tell(
    run_id: str, problems: Sequence[Problem], how: str = "", lines: Sequence[str] = ()
) -> None:
    """Tell TIDEMARK_NOTIFY of the state, if it is not the one that was told last.

    `how` a run ended and its `lines` become part of the message; without them, nothing is told
    inside of `published`, which tells at its end. Raises TidemarkError if the message cannot be
    delivered; then the next call tries again.
    """
    place = os.environ.get(NOTIFY_VARIABLE)
    if not place or (not how and _lines.get() is not None):
        return
    errors = [problem for problem in problems if problem.is_error]
    state = "red" if errors else "green"
    now = {"state": state, "reasons": sorted({f"{each.kind}: {each.name}" for each in errors})}
    if paths.note(_TOLD) == now:
        return
    is_of_run = how == "failed" or (how and not errors)
    headline = f"Tidemark run {how}: {run_id}" if is_of_run else f"Tidemark is {state}: {run_id}"
    reasons = [printable(each.line, keep="\n\t") for each in errors]
    if place.startswith("arn:"):
        _publish_on_sns(place, headline, [*reasons, *lines] or [headline])
    else:
        # `text` is what chat programs show.
        text = "\n".join([headline, *(each.partition("\n")[0] for each in reasons[:1])])
        told = {"text": text, "state": state, "run_id": run_id, "reasons": reasons}
        _send(place, json.dumps(told).encode())
    paths.write_note(_TOLD, now)


def _message(error: Exception) -> str:
    if isinstance(error, TidemarkError):
        return str(error)
    # Imported late, with Spark: a run with nothing to do does without.
    from tidemark.spark import session

    return session.readable(error)


def _publish(run_id: str, how: str, lines: list[str], began: float) -> None:
    """Copy the files first, so that readers of the message find them. A failure stops neither."""
    lines = [printable(line, keep="\n\t") for line in lines]
    failures = []
    end = lines[-1].partition("\n")[0]
    steps: dict[str, Callable[[str], None]] = {
        ARTIFACTS_VARIABLE: lambda place: _copy_artifacts(place, run_id, lines, began),
        NOTIFY_VARIABLE: lambda _: tell(run_id, _problems(how, end), how, lines),
    }
    for variable, step in steps.items():
        place = os.environ.get(variable)
        try:
            if place:
                step(place)
        except (TidemarkError, OSError) as error:
            failures.append(f"{variable}: {error}")
            lines.append(failures[-1])
    if failures:
        raise TidemarkError(f"The run {how}, but " + " ".join(failures))


def _problems(how: str, end: str) -> list[Problem]:
    """The problems at the end of a run. One that failed has at least one error."""
    from tidemark import status

    problems: list[Problem] = []
    try:
        # After a failure, do not wait for a Spark that may have been the reason.
        found = status.gather(may_start=how != "failed")
        problems = found.problems if found else []
    except Exception:
        if how != "failed":
            raise
    if how == "failed" and not any(problem.is_error for problem in problems):
        # Numbers, such as the id of a process, do not make it another reason.
        problems = [*problems, Problem("run", re.sub(r"\d+", "", end), end, is_error=True)]
    return problems


def _copy_artifacts(place: str, run_id: str, lines: list[str], began: float) -> None:
    """Copy what this run wrote to the folder of its id below a folder, local or on S3."""
    # An orchestrator's id may hold a slash.
    folder = f"{place.rstrip('/')}/{re.sub(r'[^A-Za-z0-9._:+=@-]', '_', run_id)}"
    with tempfile.TemporaryDirectory(prefix="tidemark-") as scratch:
        summary = Path(scratch, "summary.txt")
        summary.write_text("\n".join([*lines, ""]), encoding="utf-8")
        for file in [summary, *_written_since(began)]:
            places.put(file, folder)


def _written_since(began: float) -> list[Path]:
    """dbt's files, without those that an earlier run left."""
    try:
        project = paths.project_dir()
    except ConfigError:
        return []
    files = [project / name for name in _FILES]
    return [each for each in files if each.exists() and each.stat().st_mtime >= began - 1]


def _send(place: str, body: bytes) -> None:
    """Give JSON to a webhook or a command."""
    if place.startswith(("https://", "http://")):
        _post(place, body)
    elif place.startswith("cmd:"):
        _call(shlex.split(place.removeprefix("cmd:")), body)
    else:
        raise ConfigError(
            "Use the ARN of an SNS topic, https://..., or cmd: and a command, such as "
            "cmd:/usr/local/bin/page."
        )


def _post(url: str, body: bytes) -> None:
    """POST JSON to a webhook. Errors do not show its path, which may be a secret."""
    # Imported late: few use it.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Refused(HTTPRedirectHandler):
        """A redirected POST would arrive as a GET, without the message."""

        def redirect_request(self, *_: object) -> None:
            """Follow none."""

    request = Request(url, body, {"Content-Type": "application/json"})
    where = f"The webhook at {urlsplit(url).hostname}"
    try:
        build_opener(Refused).open(request, timeout=_SECONDS).close()
    except HTTPError as error:
        raise TidemarkError(f"{where} answered {error.code} {error.reason}.") from None
    except HTTPException:
        raise TidemarkError(f"{where} has no valid URL, or does not speak HTTP.") from None
    except (OSError, ValueError) as error:
        raise TidemarkError(
            f"{where} does not answer: {getattr(error, 'reason', error)}."
        ) from None


def _call(command: list[str], body: bytes) -> None:
    """Run a command, without a shell. It gets the JSON as standard input."""
    try:
        done = subprocess.run(command, input=body, timeout=_SECONDS, check=False)
    except (OSError, IndexError, subprocess.TimeoutExpired) as error:
        raise TidemarkError(f"The command cannot be run: {error}.") from None
    if done.returncode:
        raise TidemarkError(f"{command[0]} ended with exit code {done.returncode}.")


def _publish_on_sns(topic: str, subject: str, lines: list[str]) -> None:
    """Publish on the SNS topic with this ARN."""
    # Imported late: it needs boto3, which loads slowly.
    from tidemark import aws

    with aws.asking(f"The SNS topic {topic}"):
        # A topic answers in its own region only.
        aws.client("sns", region=topic.split(":")[3] if topic.count(":") == 5 else "").publish(
            TopicArn=topic,
            # SNS takes one line of printable ASCII.
            Subject=re.sub(r"[^ -~]", "?", subject)[:_SUBJECT],
            Message="\n".join(lines)[:_MESSAGE],
        )
