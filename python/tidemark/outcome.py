"""The end of a run, for people elsewhere: its artifacts in one place, a message on SNS."""

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from tidemark import paths
from tidemark.errors import ConfigError, TidemarkError, printable

ARTIFACTS_VARIABLE = "TIDEMARK_ARTIFACTS"
NOTIFY_VARIABLE = "TIDEMARK_NOTIFY"

# The files that dbt writes into the project's folder.
_FILES = ("target/run_results.json", "target/manifest.json", "logs/dbt.log")
# SNS takes 100 characters of a subject and 256 KiB of a message.
_SUBJECT, _MESSAGE = 100, 250_000
# The lines of the run that is publishing now, of a job's or of a command's.
_lines: ContextVar[list[str] | None] = ContextVar("lines", default=None)


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
    steps: dict[str, Callable[[str], None]] = {
        ARTIFACTS_VARIABLE: lambda place: _copy_artifacts(place, run_id, lines, began),
        NOTIFY_VARIABLE: lambda topic: _notify(topic, f"{how}: {run_id}", lines),
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


def _copy_artifacts(place: str, run_id: str, lines: list[str], began: float) -> None:
    """Copy what this run wrote to the folder of its id below a folder, local or on S3."""
    # Imported late, as below: few use it, and AWS's library loads slowly.
    from tidemark.aws import transfer

    # An orchestrator's id may hold a slash.
    folder = f"{place.rstrip('/')}/{re.sub(r'[^A-Za-z0-9._:+=@-]', '_', run_id)}"
    with tempfile.TemporaryDirectory(prefix="tidemark-") as scratch:
        summary = Path(scratch, "summary.txt")
        summary.write_text("\n".join([*lines, ""]), encoding="utf-8")
        for file in [summary, *_written_since(began)]:
            transfer.put(file, folder)


def _written_since(began: float) -> list[Path]:
    """dbt's files, without those that an earlier run left."""
    try:
        project = paths.project_dir()
    except ConfigError:
        return []
    files = [project / name for name in _FILES]
    return [each for each in files if each.exists() and each.stat().st_mtime >= began - 1]


def _notify(topic: str, subject: str, lines: list[str]) -> None:
    """Publish on the SNS topic with this ARN."""
    from tidemark import aws

    with aws.asking(f"The SNS topic {topic}"):
        # A topic answers in its own region only.
        aws.client("sns", region=topic.split(":")[3] if topic.count(":") == 5 else "").publish(
            TopicArn=topic,
            # SNS takes one line of printable ASCII.
            Subject=re.sub(r"[^ -~]", "?", f"Tidemark run {subject}")[:_SUBJECT],
            Message="\n".join(lines)[:_MESSAGE],
        )
