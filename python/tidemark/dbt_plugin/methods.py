"""Additional adapter methods, for macros. `facts.py` and `changes.py` have those about tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from dbt.adapters.base import available
from dbt.adapters.spark.impl import SparkAdapter
from dbt_common.exceptions import DbtRuntimeError

from tidemark import formats, targets
from tidemark.dbt_plugin import changes, facts, hook, relations
from tidemark.errors import TidemarkError
from tidemark.shared import shared
from tidemark.spark import session


def land_new_files(self: SparkAdapter, sources: Sequence[Mapping[str, Any]]) -> str:
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


def landing_failure(self: SparkAdapter, name: str) -> str:
    """New on SparkAdapter, for the macro `feed`, which does not build a table that did not land."""
    return shared.landing_failures.get(name, "")


def give_back_lake(self: SparkAdapter, nodes: Sequence[Mapping[str, Any]] | None) -> dict[str, str]:
    """New on SparkAdapter, for the macro `give_back_lake`, after dbt's last write."""
    method = self.config.credentials.method
    has_tables = nodes is not None and method in ("session", "thrift")
    if has_tables:
        targets.use_method(method)
    lines, failure = hook.end_of_run(nodes if has_tables else None)
    return {"lines": lines, "failure": failure}


def format_problem(self: SparkAdapter, name: str) -> str:
    """New on SparkAdapter, for the macros of the formats: why the target cannot have one, or ''."""
    if name != targets.lake_format() and formats.of_lake() is not formats.DELTA:
        return f"All tables of the lake are in its format ({targets.FORMAT_VARIABLE})"
    format = formats.OTHERS.get(name)
    return format.problem(self.config.credentials.method) if format else ""


def require_spark_of(self: SparkAdapter, name: str | None) -> None:
    """New on SparkAdapter, for the macro `spark__tblproperties_clause`: whether Spark has a format.

    One without a catalog of its own is not among the schemas that dbt asks for.
    """
    format = formats.OTHERS.get(name or "")
    if format and not format.has_catalog:
        relations.require_format(self, name)


def install() -> None:
    """Add the methods."""
    methods = (
        land_new_files,
        landing_failure,
        give_back_lake,
        format_problem,
        require_spark_of,
        *facts.METHODS,
        *changes.METHODS,
    )
    for method in methods:
        setattr(SparkAdapter, method.__name__, available(method))
    SparkAdapter._available_ = SparkAdapter._available_ | {each.__name__ for each in methods}
