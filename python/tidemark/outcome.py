"""How a run ended, for those who did not watch: its artifacts in one place, a message on SNS."""

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark import paths
from tidemark.errors import ConfigError, TidemarkError, printable

ARTIFACTS_VARIABLE = "TIDEMARK_ARTIFACTS"
NOTIFY_VARIABLE = "TIDEMARK_NOTIFY"

# What dbt leaves of an invocation, in the project's folder.
_FILES = ("target/run_results.json", "target/manifest.json", "logs/dbt.log")
# SNS takes no more: of a subject 100 characters, of a message 256 KiB.
_SUBJECT, _MESSAGE = 100, 250_000
# The lines of the run that is being published.
_outer: list[list[str]] = []


@contextmanager
def published(run_id: str) -> Iterator[list[str]]:
    """However the run in here ends, TIDEMARK_ARTIFACTS gets its files, TIDEMARK_NOTIFY is told.

    Gives the list that the run adds its lines to. An error of the run is raised as it was; one of
    the publishing is raised when the run had none, else printed. Within another it does nothing:
    the outer one, which is the job's, has the last word.
    """
    if _outer:
        yield _outer[0]
        return
    lines: list[str] = []
    began = time.time()
    _outer.append(lines)
    try:
        yield lines
    except Exception as error:
        lines.append(_told(error))
        try:
            _publish(run_id, "failed", [f"Run {run_id} failed", *lines], began)
        except TidemarkError as second:
            print(f"tidemark: {second}", file=sys.stderr)
        raise
    finally:
        _outer.clear()
    _publish(run_id, "succeeded", [f"Run {run_id} succeeded", *lines], began)


def _told(error: Exception) -> str:
    if isinstance(error, TidemarkError):
        return str(error)
    # Imported late, with Spark: a run that finds nothing to do comes without.
    from tidemark.spark import session

    return session.readable(error)


def _publish(run_id: str, how: str, lines: list[str], began: float) -> None:
    """The files first: whoever is told can look at them. Both are tried, and what fails is told."""
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
    # Imported late, as below: few use it, and what asks AWS takes its time to load.
    from tidemark.aws import transfer

    # An orchestrator's id may hold a slash.
    folder = f"{place.rstrip('/')}/{re.sub(r'[^A-Za-z0-9._:+=@-]', '_', run_id)}"
    with tempfile.TemporaryDirectory(prefix="tidemark-") as scratch:
        summary = Path(scratch, "summary.txt")
        summary.write_text("\n".join([*lines, ""]), encoding="utf-8")
        for file in [summary, *_written_since(began)]:
            transfer.put(file, folder)


def _written_since(began: float) -> list[Path]:
    """dbt's files; a run that builds nothing leaves those of the one before it."""
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
        # A topic is asked in its own region.
        aws.client("sns", region=topic.split(":")[3] if topic.count(":") == 5 else "").publish(
            TopicArn=topic,
            # Printable ASCII in one line, says SNS.
            Subject=re.sub(r"[^ -~]", "?", f"Tidemark run {subject}")[:_SUBJECT],
            Message="\n".join(lines)[:_MESSAGE],
        )
