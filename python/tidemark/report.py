"""The lines that a run prints."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from tabulate import tabulate
from tqdm import tqdm

from tidemark import paths
from tidemark.dbt_plugin.project import FAILURES
from tidemark.errors import printable
from tidemark.ingest.landed import Landed
from tidemark.reasons import replay_is_next

# A run names no more files; the dead letter has all of them.
_SOME = 10
_WIDTH = 100
_SECONDS_BETWEEN_LINES = 10
# dbt's kinds of nodes that give a table or a view; hooks are nodes, too.
_BUILT = ("model", "seed", "snapshot")


def log(run_id: str, text: str) -> None:
    """Append lines to the lake's log, each with the time and the run."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    lines = [printable(f"{run_id} {line}", keep="\t") for line in text.rstrip("\n").split("\n")]
    with paths.opened_in_lake("tidemark.log", "a") as file:
        file.writelines(f"{now} {line}\n" for line in lines)


def forget(before: datetime) -> None:
    """Delete the lines of the lake's log that are older. It is in the order of time."""
    log_file = paths.lake_dir() / "tidemark.log"
    oldest = f"{before:%Y-%m-%dT%H:%M:%SZ}"
    if not log_file.exists():
        return
    with log_file.open(encoding="utf-8") as old:
        if not (first := old.readline()) or first >= oldest:
            return
        with paths.opened_in_lake("tidemark.log.new", "w") as new:
            new.writelines(line for line in old if line >= oldest)
    log_file.with_name("tidemark.log.new").replace(log_file)


@contextmanager
def progress(
    say: Callable[[str], None], doing: str, what: str
) -> Iterator[Callable[[int, int], None]]:
    """Shows the numbers of done and planned things: a bar on a terminal, else a few lines."""
    if sys.stderr.isatty():
        with tqdm(unit=f" {what}", desc=doing, leave=False, delay=1) as bar:

            def show(done: int, planned: int) -> None:
                bar.total = planned
                bar.update(done - bar.n)

            yield show
        return
    began = last = time.monotonic()

    def tell(done: int, planned: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done < planned and now - last >= _SECONDS_BETWEEN_LINES:
            last = now
            say(f"{doing}: {done} of {planned} {what} after {now - began:.0f} s")

    yield tell


def time_of(at: datetime | None) -> str:
    """A time for people; '' for none."""
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else ""


def span_of(length: timedelta | None) -> str:
    """A length of time for people, in its largest unit: `90 s`, `3 h`, `2 d`; '' for none."""
    if length is None:
        return ""
    seconds = length.total_seconds()
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def counted(number: int, what: str) -> str:
    """A number of things: `1 row`, `2 rows`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def one_line(landed: Sequence[Landed]) -> str:
    """What landed, in one line."""
    new = [entry for entry in landed if entry.is_new]
    if not new:
        return "No new files."
    rows = sum(entry.rows for entry in new)
    rejected = sum(entry.rejected for entry in new)
    text = f"Landed {counted(rows, 'row')} from {counted(sum(e.files for e in new), 'file')}."
    if rejected:
        text += f" {counted(rejected, 'row')} went to tidemark.dead_letter."
    aside = sum(entry.set_aside for entry in new)
    if aside:
        text += f" Set aside {counted(aside, 'file')}: see tidemark.dead_letter."
    failed = [entry.feed.name for entry in new if entry.failure]
    if failed:
        text += f" {counted(len(failed), 'table')} failed: {', '.join(failed)}."
    if rejected or aside:
        text += " To see why: tidemark report"
    return text


def table(landed: Sequence[Landed]) -> str:
    """What landed, with a line for each table that got files, as in `tidemark.runs`."""
    counts = ("rows", "inserted", "updated", "deleted", "late", "duplicate", "rejected", "skipped")
    new = [entry for entry in landed if entry.is_new]
    columns: dict[str, list[Any]] = {
        "table": [entry.feed.name + (" (failed)" if entry.failure else "") for entry in new],
        "files": [entry.files for entry in new],
        **{name: [entry.counts[name] for entry in new] for name in counts},
        "set aside": [entry.set_aside for entry in new],
        "seconds": [f"{entry.seconds:.1f}" for entry in new],
        "newest change": [time_of(entry.newest_change) for entry in new],
    }
    return fitting(columns, ("newest change", "seconds", "files"))


def fitting(columns: Mapping[str, Sequence[Any]], spare: Iterable[str]) -> str:
    """A table without the columns in which every line has zero, or nothing.

    As long as its lines are wider than a screen, it also leaves out one of the spare columns.
    """
    shown = {name: column for name, column in columns.items() if any(column)}
    for name in (*spare, ""):
        text = tabulate(shown, headers="keys")
        if max(map(len, text.splitlines()), default=0) <= _WIDTH:
            break
        shown.pop(name, None)
    return text


def built(results: Sequence[Any], seconds: float) -> Iterator[str]:
    """A line with what dbt built and tested, and one for each test that warns."""
    tests = [each for each in results if each.node.resource_type in ("test", "unit_test")]
    models = [each for each in results if each.node.resource_type in _BUILT]
    results_of = [
        (sum(each.status == "success" for each in models), "model", "built"),
        (sum(each.status == "pass" for each in tests), "test", "passed"),
        (sum(each.status == "warn" for each in tests), "test", "warned"),
        (sum(each.status in FAILURES for each in results), "node", "failed"),
        (sum(each.status == "skipped" for each in results), "node", "skipped"),
    ]
    line = ", ".join(f"{counted(n, what)} {became}" for n, what, became in results_of if n)
    if line:
        yield f"{line} in {seconds:.0f} s."
    for each in tests:
        if each.status == "warn":
            rows, file = counted(each.failures or 0, "row"), each.node.original_file_path
            yield f"Warning: {each.node.name} found {rows} ({file})."


def without_folder(landed: Sequence[Landed]) -> Iterator[str]:
    """A line with the tables that have no folder in the landing folder, if there are any."""
    waiting = [f"{entry.feed.name} ({entry.feed.path})" for entry in landed if not entry.has_folder]
    if waiting:
        yield f"No folder in {paths.landing()} yet: {some(waiting)}"


def remarks(landed: Sequence[Landed]) -> Iterator[str]:
    """A line for each thing that needs attention; Spark's own errors may have several."""
    if landed and not any(entry.has_folder for entry in landed):
        yield from without_folder(landed)
    for entry in landed:
        yield from map(printable, of_table(entry))
        if entry.failure:
            yield printable(f"{entry.feed.name} failed: {entry.failure}", keep="\n\t")


def noted(entry: Landed, codes: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """A line for each remark and each file that was set aside, and whether to replay it.

    `codes` has the code of each file's reason, if it has one.
    """
    remarks = [(str(note), replay_is_next(note.code.name)) for note in entry.notes]
    aside = [
        (f"set aside {path}: {reason}", replay_is_next(codes.get(path)))
        for path, reason in sorted(entry.reasons.items())
    ]
    for lines, what in ((remarks, "remark"), (aside, "file")):
        for line, is_next in lines[:_SOME]:
            yield f"{entry.feed.name}: {line}", is_next
        if more := lines[_SOME:]:
            told = f"{entry.feed.name}: and {counted(len(more), f'more {what}')}"
            yield told, any(is_next for _, is_next in more)


def of_table(entry: Landed) -> Iterator[str]:
    """A line for each thing about one table that needs attention, apart from its failure."""
    for _, file in entry.retracted:
        yield f"{entry.feed.name}: retracts {printable(file.path)}"
    for line, _ in noted(entry, {}):
        yield line
    for column in entry.new_columns:
        yield (
            f"{entry.feed.name}: new column {column}. It is added to current and history; "
            f"declare it in {entry.feed.declared_in}"
        )
    if entry.rejected and entry.feed.is_full_extract:
        yield (
            f"{entry.feed.name}: an extract with rejected rows deletes nothing; the next one "
            "without deletes the keys that it lacks"
        )
