"""`tidemark status`: the state of each table. On a lake of this machine it needs no Spark."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from tabulate import tabulate

from tidemark import paths, report, targets
from tidemark.dbt_plugin import project
from tidemark.ingest import books, planning
from tidemark.ingest.landed import Outcome

_OPEN = "superseded_by is null"


def lines() -> Iterator[str]:
    """The last run, a line for each table, and what needs attention.

    Raises TidemarkError when the project cannot be read or the landing folder is missing.
    """
    own = _books()
    if own is None:
        yield f"Nothing has landed in {paths.lake_dir()} yet: tidemark run."
        return
    parsed = project.cached()
    if parsed is None:
        from tidemark.dbt_plugin import dbt

        parsed = project.of(dbt.parse())
    work, book = planning.of_landing_folder(own, parsed.feeds)
    due = parsed.due(book.newest_loads, project.read_built(own))
    runs = _newest_runs(own)
    records, aside = _open_records(own), _set_aside(own)
    if runs:
        last = max(runs.values(), key=lambda run: run["at"])
        yield f"Last run that landed files: {last['run_id']}, {report.time_of(last['at'])}"
    table = []
    for landed in work:
        name = landed.feed.name
        run = runs.get(name, {})
        landed.failure = landed.failure or run.get("failure") or ""
        landed.outcome = Outcome(set_aside=aside.get(name, {}))
        new = len(landed.plan.files) if landed.plan else 0
        to_build = len(due & parsed.below(parsed.sources_of([name])))
        counts = (new, landed.set_aside, records.get(name, 0), to_build)
        table.append((name, *counts, *_times(run), "failed" if landed.failure else ""))
    headers = ["table", "new files", "set aside", "dead letters", "to build"]
    yield tabulate(table, headers=[*headers, "last landed", "newest change", "lag", ""])
    if any(landed.has_folder for landed in work):
        yield from report.without_folder(work)
    yield from report.remarks(work)


def _times(run: dict[str, Any]) -> tuple[str, str, str]:
    """How long ago a table's newest run was, its newest change, and how late that landed."""
    at, changed = run.get("at"), run.get("newest_change")
    ago = f"{report.span_of((datetime.now(UTC) - at).total_seconds())} ago" if at else ""
    lag = report.span_of((at - changed).total_seconds()) if at and changed else ""
    return ago, report.time_of(changed), lag


def _books() -> books.Books | None:
    own = books.without_spark()
    if own or targets.method() == "session":
        return own
    from tidemark.spark import session

    own = books.of(session.get())
    own.create()
    return own


def _newest_runs(own: books.Books) -> dict[str, dict[str, Any]]:
    """The newest run of each table that got files, or failed."""
    columns = ("source_name", "table_name", "run_id", "newest_change", "failure", "at")
    newest: dict[str, dict[str, Any]] = {}
    for row in books.rows(own.read(books.RUNS, columns)):
        name = _name(row)
        if name not in newest or newest[name]["at"] <= row["at"]:
            newest[name] = row
    return newest


def _open_records(own: books.Books) -> dict[str, int]:
    """The number of each table's records in the dead letter that are open."""
    names = ["source_name", "table_name"]
    found = own.read(books.DEAD_LETTER, names, f"{_OPEN} and position is not null")
    schema = pa.schema([books.schema(books.DEAD_LETTER).field(name) for name in names])
    rows = (
        pa.Table.from_batches(found, schema)
        .group_by(names)
        .aggregate([([], "count_all")])
        .to_pylist()
    )
    return {_name(row): row["count_all"] for row in rows}


def _set_aside(own: books.Books) -> dict[str, dict[str, str]]:
    """Each table's files that were set aside, and why."""
    aside: dict[str, dict[str, str]] = {}
    columns = ("source_name", "table_name", "file", "reason")
    for row in books.rows(own.read(books.DEAD_LETTER, columns, f"{_OPEN} and position is null")):
        aside.setdefault(_name(row), {})[row["file"]] = row["reason"]
    return aside


def _name(row: dict[str, Any]) -> str:
    return f"{row['source_name']}.{row['table_name']}"
