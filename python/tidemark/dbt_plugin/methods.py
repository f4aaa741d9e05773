"""Additional adapter methods, for the macros in `macros/landing` and `feed`."""

from collections.abc import Mapping, Sequence
from typing import Any

from dbt.adapters.base import available
from dbt.adapters.spark.impl import SparkAdapter
from dbt_common.exceptions import DbtRuntimeError

from tidemark import targets
from tidemark.dbt_plugin import hook
from tidemark.errors import TidemarkError
from tidemark.spark import session


def _land_new_files(self: SparkAdapter, sources: Sequence[Mapping[str, Any]]) -> str:
    """New on SparkAdapter, for the macro `land_new_files`: lands before the first model."""
    method = self.config.credentials.method
    targets.use_method(method)
    if method not in ("session", "thrift"):
        return ""
    if method == "thrift" and not session.connect_url():
        return f"No files are landed, because {session.CONNECT_VARIABLE} is not set."
    try:
        return hook.land_for_dbt(sources)
    except TidemarkError as error:
        raise DbtRuntimeError(str(error)) from error


def _landing_failure(self: SparkAdapter, name: str) -> str:
    """New on SparkAdapter, for the macro `feed`, which does not build a table that did not land."""
    return hook.landing_failure(name)


def _give_back_lake(
    self: SparkAdapter, nodes: Sequence[Mapping[str, Any]] | None
) -> dict[str, str]:
    """New on SparkAdapter, for the macro `give_back_lake`, after dbt's last write."""
    method = self.config.credentials.method
    has_tables = nodes is not None and method in ("session", "thrift")
    if has_tables:
        targets.use_method(method)
    lines, failure = hook.end_of_run(nodes if has_tables else None)
    hook.fail_at_end(failure)
    return {"lines": lines, "failure": failure}


def install() -> None:
    """Add the methods."""
    SparkAdapter.land_new_files = available(_land_new_files)
    SparkAdapter.landing_failure = available(_landing_failure)
    SparkAdapter.give_back_lake = available(_give_back_lake)
    SparkAdapter._available_ = SparkAdapter._available_ | {
        *("land_new_files", "landing_failure", "give_back_lake")
    }
