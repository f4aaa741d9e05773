"""The state of the tables, and what needs attention: for `tidemark status`, its exit code, the
report and notifications. On a lake of this machine it needs no Spark.

The state is red if a problem is an error. Tidemark adds no rules of its own: an error is a table
that failed to land, a model or a test that failed in dbt, and a bound of the YAML that is exceeded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark import feed_values, formats, outcome, paths, report
from tidemark.dbt_plugin import project
from tidemark.errors import TidemarkError, printable
from tidemark.feeds import Feed
from tidemark.ingest import books, planning, tombstones
from tidemark.ingest.books import Books
from tidemark.ingest.landed import Landed, Outcome
from tidemark.outcome import Problem
from tidemark.reasons import replay_is_next
from tidemark.report import span_of

# The condition of dead letters that nobody has read again.
OPEN = "superseded_by is null"
_RUN = (
    *("run_id", "source_name", "table_name", "files", "rows", "inserted", "updated", "deleted"),
    *("rejected", "seconds", "newest_change", "failure", "at"),
)


@dataclass(frozen=True)
class Table:
    """One feed: its numbers of files, dead letters and models to build, and its times.

    `landed_at` and `newest_change` are of its newest load; `lag` is the time between them. `lost`
    are those of the dead letters that no replay can land.
    """

    feed: Feed
    new_files: int
    set_aside: int
    dead_letters: int
    to_build: int
    failed: bool
    landed_at: datetime | None
    newest_change: datetime | None
    limits: str
    lost: int = 0

    @property
    def has_landed(self) -> bool:
        """Whether it has ever landed, or has tried to."""
        return self.failed or self.landed_at is not None

    @property
    def age(self) -> timedelta | None:
        """The time since its newest load landed."""
        return datetime.now(UTC) - self.landed_at if self.landed_at else None

    @property
    def lag(self) -> timedelta | None:
        """The time from its newest change until that landed."""
        if not self.landed_at or not self.newest_change:
            return None
        return self.landed_at - self.newest_change


@dataclass(frozen=True)
class Status:
    """What is known of a lake. `runs` has the rows of `tidemark.runs` in the order of time."""

    parsed: project.Project
    tables: list[Table]
    problems: list[Problem]
    results: dict[str, project.Result]
    runs: pa.Table
    own: Books
    waiting: list[str]

    @cached_property
    def errors(self) -> list[Problem]:
        """The problems that make the state red."""
        return [problem for problem in self.problems if problem.is_error]

    @cached_property
    def last_run(self) -> dict[str, Any]:
        """A row of the last run that landed files, empty without one."""
        return dict((self.runs.slice(self.runs.num_rows - 1).to_pylist() or [{}])[0])


def gather(*, may_start: bool = True) -> Status | None:
    """The state of the lake; None if nothing has landed yet.

    On a target that needs Spark, `may_start` allows to connect to it. Raises TidemarkError when the
    project cannot be read or the landing folder is missing.
    """
    own = _books(may_start=may_start)
    if own is None:
        return None
    parsed = project.current()
    work, book = planning.of_landing_folder(own, parsed.feeds)
    built, told = project.read_builds(own)
    due = parsed.due(book.newest_loads, built)
    runs = own.read_table(books.RUNS, _RUN).sort_by("at")
    newest, loads = _newest(runs), _newest(runs.filter(pc.greater(runs["rows"], 0)))
    records, aside = _open_records(own), _set_aside(own)
    bounds = _bounds(parsed)
    tables: list[Table] = []
    problems: list[Problem] = []
    for landed in work:
        name = landed.feed.name
        load = loads.get(name, {})
        if landed.plan or book.retracting(landed.feed):
            # What failed is still to be done.
            landed.failure = landed.failure or newest.get(name, {}).get("failure") or ""
        landed.outcome = Outcome(
            set_aside={file: reason for file, (reason, _) in aside.get(name, {}).items()}
        )
        table = Table(
            landed.feed,
            len(landed.plan.files) if landed.plan else 0,
            landed.set_aside,
            sum(records.get(name, {}).values()),
            len(due & parsed.below(parsed.sources_of([name]))),
            bool(landed.failure),
            load.get("at"),
            load.get("newest_change"),
            _limits(landed.feed, bounds.get(name, {})),
            sum(n for code, n in records.get(name, {}).items() if not replay_is_next(code)),
        )
        tables.append(table)
        codes = {file: code for file, (_, code) in aside.get(name, {}).items() if code}
        problems += _of_landing(landed, codes)
        problems += _of_bounds(table, bounds.get(name, {}))
    last = pc.max(runs["at"]).as_py()
    problems += _stale(books.RUNS, bounds.get(books.RUNS, {}), last, "tidemark run")
    known = {*parsed.nodes, *parsed.tests}
    results = {name: each for name, each in told.items() if name in known}
    problems += _of_results(results)
    waiting = list(report.without_folder(work))
    for name in tombstones.unfinished(own):
        text = f"Erasure {name} was interrupted, so values of its subjects are still there."
        problems.append(Problem("erasure", name, text, "tidemark erase", is_error=True))
    # The errors first, otherwise in the order of the project.
    problems.sort(key=lambda problem: not problem.is_error)
    return Status(parsed, tables, problems, results, runs, own, waiting)


def lines() -> Iterator[str]:
    """The last run, a line for each table, and what needs attention, with commands for it."""
    status = gather()
    if status is None:
        yield f"Nothing has landed in {paths.lake_dir()} yet: tidemark run."
        return
    if status.last_run:
        run_id, at = status.last_run["run_id"], report.time_of(status.last_run["at"])
        yield f"Last run that landed files: {run_id}, {at}"
    tables = status.tables
    columns: dict[str, list[Any]] = {
        "table": [table.feed.name for table in tables],
        "new files": [table.new_files for table in tables],
        "set aside": [table.set_aside for table in tables],
        "dead letters": [table.dead_letters for table in tables],
        "to build": [table.to_build for table in tables],
        "last landed": [f"{span_of(table.age)} ago" if table.age else "" for table in tables],
        "newest change": [report.time_of(table.newest_change) for table in tables],
        "lag": [span_of(table.lag) for table in tables],
        "last run": ["failed" if table.failed else "" for table in tables],
    }
    yield report.fitting(columns, ("newest change", "last landed", "set aside"))
    yield from status.waiting
    for problem in status.problems:
        yield printable(problem.line, keep="\n\t")


def check() -> str:
    """Give a line if the state is green; raise TidemarkError with the first error if it is red.

    TIDEMARK_NOTIFY is told if the state has changed.
    """
    status = gather()
    if status is None:
        raise TidemarkError(
            f"red: nothing has landed in {paths.lake_dir()} yet. Next: tidemark run"
        )
    outcome.tell(status.last_run.get("run_id", ""), status.problems)
    if status.errors:
        more = len(status.errors) - 1
        first = status.errors[0].line.partition("\n")[0]
        raise TidemarkError(f"red: {first}" + (f" ({more} more: tidemark status)" if more else ""))
    return f"green: {report.counted(len(status.tables), 'table')}"


def _books(*, may_start: bool) -> Books | None:
    # Otherwise a lake of another format looks empty.
    formats.require_catalogs()
    own = books.without_spark()
    if own or not books.needs_spark() or not may_start:
        return own
    from tidemark.spark import session

    own = books.of(session.get())
    own.create()
    return own


def _of_landing(landed: Landed, codes: Mapping[str, str]) -> Iterator[Problem]:
    """A failure, files that were set aside, with the codes of their reasons, and remarks."""
    name = landed.feed.name
    if landed.failure:
        text = f"{name} failed: {landed.failure}"
        yield Problem("failed", name, text, "tidemark run", is_error=True)
    for line, is_replay_next in report.noted(landed, codes):
        command = f"tidemark replay {name}" if is_replay_next else ""
        yield Problem("set aside", name, line, command)


def _of_bounds(table: Table, bounds: Mapping[str, timedelta]) -> Iterator[Problem]:
    feed = table.feed
    at = table.newest_change if "_changed_at" in bounds else table.landed_at
    new = "tidemark run" if table.new_files else ""
    yield from _stale(feed.name, bounds, at, new)
    if feed.max_lag and table.lag is not None and table.lag > feed_values.span(feed.max_lag):
        text = f"{feed.name}: its newest change landed {span_of(table.lag)} after it was made, "
        yield Problem("lag", feed.name, f"{text}max_lag is {feed.max_lag}.", new, is_error=True)
    bound, found = feed.max_dead_letters, table.dead_letters + table.set_aside
    is_error = bound is not None and found > bound
    # A warning is only for rows: files that were set aside have a line each.
    if is_error or table.dead_letters:
        text = f"{feed.name}: {report.counted(found, 'open dead letter')}"
        text += f", max_dead_letters is {bound}." if is_error else "."
        fix = f"tidemark replay {feed.name}" if table.dead_letters > table.lost else ""
        yield Problem("dead letters", feed.name, text, fix, is_error=is_error)


def _stale(
    what: str, bounds: Mapping[str, timedelta], at: datetime | None, command: str = ""
) -> Iterator[Problem]:
    """dbt's freshness: an error, else a warning, for rows that are too old."""
    for name in ("error_after", "warn_after"):
        if at and name in bounds and (age := datetime.now(UTC) - at) > bounds[name]:
            bound = span_of(bounds[name])
            text = f"{what}: its newest row is {span_of(age)} old, {name} is {bound}."
            yield Problem("stale", what, text, command, is_error=name == "error_after")
            return


def _bounds(parsed: project.Project) -> dict[str, dict[str, timedelta]]:
    """dbt's freshness of each source that has one.

    `_changed_at` is among them if dbt reads the age from that column (loaded_at_field).
    """
    found: dict[str, dict[str, timedelta]] = {}
    for source in parsed.sources:
        bounds = {
            name: timedelta(**{f"{each['period']}s": each["count"]})
            for name, each in (source.get("freshness") or {}).items()
            if name in ("warn_after", "error_after") and each and each.get("count") is not None
        }
        if bounds and source.get("loaded_at_field") == "_changed_at":
            bounds["_changed_at"] = timedelta()
        found[f"{source['source_name']}.{source['name']}"] = bounds
    return found


def _limits(feed: Feed, bounds: Mapping[str, timedelta]) -> str:
    """The bounds of a table in words."""
    told = [
        f"{name} {span_of(bounds[name])}"
        for name in ("warn_after", "error_after")
        if name in bounds
    ]
    told += [f"max_lag {feed.max_lag}"] if feed.max_lag else []
    return ", ".join(told)


def _of_results(results: Mapping[str, project.Result]) -> Iterator[Problem]:
    """The nodes and tests that failed or warned the last time that a run built them."""
    for name, result in results.items():
        kind, _, node = name.split(".", 2)
        text = f"{kind} {node.split('.')[0]}"
        first = result.message.partition("\n")[0]
        if result.status in project.FAILURES:
            yield Problem("failed", name, f"{text} failed: {first}", "tidemark run", is_error=True)
        elif result.status == "warn":
            yield Problem("warned", name, f"{text} warned: {first}", "")


def counted(rows: pa.Table) -> list[dict[str, Any]]:
    """The distinct rows, each with how often it occurs, `count_all`."""
    found: list[dict[str, Any]]
    found = rows.group_by(rows.column_names).aggregate([([], "count_all")]).to_pylist()
    return found


def _newest(runs: pa.Table) -> dict[str, dict[str, Any]]:
    """The last row of each table; the rows are in the order of time."""
    numbered = runs.append_column("number", pa.array(range(runs.num_rows), pa.int64()))
    last = numbered.group_by(["source_name", "table_name"]).aggregate([("number", "max")])
    return {books.table_of(run): run for run in runs.take(last["number_max"]).to_pylist()}


def _open_records(own: Books) -> dict[str, dict[str | None, int]]:
    """The number of each table's records in the dead letter that are open, by code."""
    records: dict[str, dict[str | None, int]] = {}
    columns = ("source_name", "table_name", "code")
    where = f"{OPEN} and position is not null"
    for row in counted(own.read_table(books.DEAD_LETTER, columns, where)):
        records.setdefault(books.table_of(row), {})[row["code"]] = row["count_all"]
    return records


def _set_aside(own: Books) -> dict[str, dict[str, tuple[str, str | None]]]:
    """Each table's files that were set aside, with the reason and its code, if it has one."""
    aside: dict[str, dict[str, tuple[str, str | None]]] = {}
    columns = ("source_name", "table_name", "file", "reason", "code")
    for row in books.rows(own.read(books.DEAD_LETTER, columns, f"{OPEN} and position is null")):
        aside.setdefault(books.table_of(row), {})[row["file"]] = row["reason"], row["code"]
    return aside
