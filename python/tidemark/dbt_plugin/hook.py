"""What dbt calls before its first model and at its end, so that a plain `dbt build` lands too."""

import atexit
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from tidemark import report, runs, storage
from tidemark.errors import TidemarkError
from tidemark.feeds import feeds_of
from tidemark.ingest import landing
from tidemark.spark import lease, session

# Set by `tidemark run`, which has landed by itself before it calls dbt.
LANDED_VARIABLE = "TIDEMARK_LANDED"

# Why tables could not be landed, by `source.table`: their models fail, the others are built.
_failures: dict[str, str] = {}
# Why the hook at dbt's end must fail, while it does; see the macro `give_back_lake`.
_failures_at_end: list[str] = []
# The lease of the lake: dbt writes after landing, too.
_lease = ExitStack()
atexit.register(_lease.close)


def land_for_dbt(sources: Sequence[Mapping[str, Any]]) -> str:
    """Land the new files of the project's feeds; gives lines for dbt's log, or ''."""
    _failures.clear()
    if os.environ.get(LANDED_VARIABLE):
        return ""
    if runs.registers():
        # Imported late: few use it, and what asks AWS takes its time to load.
        from tidemark.aws import catalog

        catalog.begin()
    feeds = feeds_of(sources)
    if not feeds:
        return ""
    run_id = runs.new_run_id()
    spark = session.get()
    _lease.enter_context(lease.held(spark))
    try:
        landed = landing.land(spark, feeds, storage.landing_folder(), run_id=run_id)
    except BaseException:
        # dbt stops, without the hook at its end.
        _lease.close()
        raise
    _failures.update({entry.feed.name: entry.failure for entry in landed if entry.failure})
    text = "\n".join([report.one_line(landed), *report.remarks(landed)])
    report.log(run_id, text)
    return text


def end_of_run(nodes: Iterable[Mapping[str, Any]] | None) -> tuple[str, str]:
    """Register the tables where that is wanted, then give back the lease of the lake.

    `nodes` are dbt's nodes and sources, None when it has built nothing. Gives lines for dbt's
    log, and why the run must fail, or '' for each: what dbt has built is built.
    """
    lines: list[str] = []
    failure = ""
    try:
        if nodes is not None and runs.registers() and not os.environ.get(LANDED_VARIABLE):
            from tidemark.aws import catalog

            catalog.AtEnd(nodes).register(session.get(), lines.append)
    except TidemarkError as error:
        failure = str(error).strip()
    finally:
        _lease.close()
    return "\n".join(lines), failure


def landing_failure(name: str) -> str:
    """Why the files of `source.table` could not be landed in this run, or ''."""
    return _failures.get(name, "")


def fail_at_end(failure: str) -> None:
    """Let the hook at dbt's end fail by this text, if it is one."""
    _failures_at_end[:] = [failure] if failure else []


def refuse(statement: str) -> None:
    """A failure of the hook at dbt's end is no SQL: it is what fails."""
    for failure in _failures_at_end:
        if failure in statement:
            _failures_at_end.clear()
            raise DbtRuntimeError(failure)
