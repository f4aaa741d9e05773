"""The code behind dbt's run-start and run-end hooks, so that a plain `dbt build` also lands."""

import atexit
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from tidemark import report, runs, storage
from tidemark.errors import TidemarkError
from tidemark.feeds import feeds_of
from tidemark.ingest import landing
from tidemark.shared import shared
from tidemark.spark import lease, session

# Set by `tidemark run`, which lands before it calls dbt.
LANDED_VARIABLE = "TIDEMARK_LANDED"

atexit.register(shared.lease.close)


def land_for_dbt(sources: Sequence[Mapping[str, Any]]) -> str:
    """Land the new files of the project's feeds. Returns lines for dbt's log, or ''."""
    shared.landing_failures = {}
    if os.environ.get(LANDED_VARIABLE):
        return ""
    if runs.registers():
        # Imported here because few projects need it, and boto3 is slow to import.
        from tidemark.aws import catalog

        catalog.begin()
    feeds = feeds_of(sources)
    if not feeds:
        return ""
    run_id = runs.new_run_id()
    spark = session.get()
    shared.lease.enter_context(lease.held(spark))
    try:
        landed = landing.land(spark, feeds, storage.landing_folder(), run_id=run_id)
    except BaseException:
        # dbt stops without running the run-end hook.
        shared.lease.close()
        raise
    shared.landing_failures = {each.feed.name: each.failure for each in landed if each.failure}
    text = "\n".join([report.one_line(landed), *report.remarks(landed)])
    report.log(run_id, text)
    return text


def end_of_run(nodes: Iterable[Mapping[str, Any]] | None) -> tuple[str, str]:
    """Register the tables if that is configured, then release the lease of the lake.

    `nodes` are dbt's nodes and sources, or None if it has built nothing. Returns lines for dbt's
    log and the reason why the run must fail, '' if there are none. Built tables stay.
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
        shared.lease.close()
    shared.failure_at_end = failure
    return "\n".join(lines), failure


def refuse(statement: str) -> None:
    """Raise the failure of the run-end hook, which dbt sends as a statement."""
    failure = shared.failure_at_end
    if failure and failure in statement:
        shared.failure_at_end = ""
        raise DbtRuntimeError(failure)
