"""dbt imports this module because of its name, and dbt-spark 1.11 then works as Tidemark needs.

Each function below replaces one named part of dbt-spark or PySpark and says why. The guard in
tests/python/test_replaced_parts.py fails when a replaced part changes upstream.
"""

import datetime
import logging
import time
import traceback
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import dbt.adapters.spark.session as spark_session
from dbt.adapters.base import PythonJobHelper, available
from dbt.adapters.spark.impl import (
    SCHEMA_NOT_FOUND_MESSAGES,
    TABLE_OR_VIEW_NOT_FOUND_MESSAGES,
    SparkAdapter,
)
from dbt_common.exceptions import DbtRuntimeError
from pyspark.errors.exceptions.captured import CapturedException

from tidemark import hook, session
from tidemark.errors import TidemarkError

logging.getLogger("py4j").setLevel(logging.ERROR)


# --- Sessions -------------------------------------------------------------------------------
# dbt-spark gives every thread one SparkSession: temporary views of models that share a name mix
# their rows, and a `set` in one model stays for all that follow (dbt-adapters issue 1289).


def _connect(
    self: spark_session.Connection, *, server_side_parameters: Mapping[str, str] | None = None
) -> None:
    """Replaces session.Connection.__init__: a session of its own for each dbt connection."""
    self.server_side_parameters = dict(server_side_parameters or {})
    try:
        self.spark = session.get().newSession()
    except TidemarkError as error:
        raise DbtRuntimeError(str(error)) from error
    for key, value in self.server_side_parameters.items():
        self.spark.conf.set(key, value)


def _cursor(self: spark_session.Connection) -> spark_session.Cursor:
    """Replaces session.Connection.cursor."""
    cursor = spark_session.Cursor()
    cursor.spark = self.spark
    return cursor


def _execute(self: spark_session.Cursor, sql: str, *parameters: Any) -> None:
    """Replaces session.Cursor.execute: on the connection's session, with readable errors."""
    statement = sql % parameters if parameters else sql
    try:
        self._df = self.spark.sql(statement)
    except Exception as error:
        raise DbtRuntimeError(session.readable(error)) from error


def _fetchall(self: spark_session.Cursor) -> list[Any] | None:
    """Replaces session.Cursor.fetchall: a query runs here, so its errors must be caught here."""
    if self._rows is None and self._df is not None:
        try:
            self._rows = self._df.collect()
        except Exception as error:
            raise DbtRuntimeError(session.readable(error)) from error
    return self._rows  # type: ignore[no-any-return]


def _literal(cls: type, value: Any) -> str:
    """Replaces SessionConnectionWrapper._fix_binding: a seed's value as an SQL literal.

    dbt-spark writes NULL as 'None', breaks on quotes and sends numbers through a float.
    A dollar is written as its number: Spark takes `${name}` for a setting, also within a literal.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime.datetime):
        return f"timestamp'{value.isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"date'{value.isoformat()}'"
    text = str(value).replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return "'" + text.replace("$", "\\u0024") + "'"


# --- Relations ------------------------------------------------------------------------------

_LISTING_TRIES = 8
_list_relations = SparkAdapter.list_relations_without_caching


def _list_relations_safely(self: SparkAdapter, schema_relation: Any) -> list[Any]:
    """Replaces SparkAdapter.list_relations_without_caching.

    dbt-spark takes "a table vanished while listing" for "the schema is empty", and then replaces
    incremental tables and snapshots, history included (dbt-adapters issue 1289).
    """
    for attempt in range(_LISTING_TRIES):
        try:
            rows = self.execute_macro(
                "list_relations_without_caching", kwargs={"schema_relation": schema_relation}
            )
            return list(
                self._build_spark_relation_list(
                    row_list=rows, relation_info_func=self._get_relation_information
                )
            )
        except DbtRuntimeError as error:
            message = str(error.msg)
            if any(text in message for text in SCHEMA_NOT_FOUND_MESSAGES):
                return []
            if "SHOW TABLE EXTENDED is not supported" in message:
                return list(_list_relations(self, schema_relation))
            if not any(text in message for text in TABLE_OR_VIEW_NOT_FOUND_MESSAGES):
                raise
            time.sleep(0.1 * 2**attempt)
    raise DbtRuntimeError(
        f"The tables of {schema_relation} could not be listed: tables come and go too fast. "
        "Is another dbt running on this schema?"
    )


# --- Python models --------------------------------------------------------------------------


class SessionPythonJobHelper(PythonJobHelper):  # type: ignore[misc]
    """Runs a Python model in the embedded session; dbt-spark itself only knows Databricks."""

    def __init__(self, parsed_model: dict[str, Any], credentials: Any) -> None:
        self.model = parsed_model
        if credentials.method != "session":
            raise DbtRuntimeError(
                f"{parsed_model['original_file_path']}: a Python model runs on targets with "
                f"method session; this target's is {credentials.method}."
            )

    def submit(self, compiled_code: str) -> None:
        """Execute the model's code; an error names the model's file and, if it has one, its line.

        dbt writes blank lines above the model's code, and below it what runs the model.
        """
        path = self.model["original_file_path"]
        spark = session.get().newSession()
        try:
            code = compile(compiled_code.lstrip(), path, "exec")
            exec(code, {"__name__": path, "spark": spark})
        except Exception as error:
            trace = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno or 0 for frame in trace if frame.filename == path]
            if not lines and isinstance(error, SyntaxError):
                lines = [error.lineno or 0]
            own = lines and lines[-1] <= len(self.model["raw_code"].strip().splitlines())
            place = f"{path}, line {lines[-1]}" if own else path
            raise DbtRuntimeError(f"{place}: {session.readable(error)}") from error


# --- Errors ---------------------------------------------------------------------------------

_get_message = CapturedException.getMessage


def _message(self: CapturedException) -> str:
    """Replaces CapturedException.getMessage: Spark does not know Delta's error classes."""
    try:
        return str(_get_message(self))
    except Exception:
        return str(self._desc)


# --- Landing --------------------------------------------------------------------------------


def _land_new_files(self: SparkAdapter, sources: Sequence[Mapping[str, Any]]) -> str:
    """New on SparkAdapter, for the macro `land_new_files`: land before the first model."""
    if self.config.credentials.method != "session":
        return ""
    try:
        return hook.land_for_dbt(sources)
    except TidemarkError as error:
        raise DbtRuntimeError(str(error)) from error


def _landing_failure(self: SparkAdapter, name: str) -> str:
    """New on SparkAdapter, for the macro `feed`: a table that failed to land is not built."""
    return hook.landing_failure(name)


def _install() -> None:
    spark_session.Connection.__init__ = _connect
    spark_session.Connection.cursor = _cursor
    spark_session.Cursor.execute = _execute
    spark_session.Cursor.fetchall = _fetchall
    spark_session.SessionConnectionWrapper._fix_binding = classmethod(_literal)
    SparkAdapter.list_relations_without_caching = _list_relations_safely
    SparkAdapter.python_submission_helpers = property(
        lambda self: {"session": SessionPythonJobHelper}
    )
    SparkAdapter.default_python_submission_method = property(lambda self: "session")
    SparkAdapter.land_new_files = available(_land_new_files)
    SparkAdapter.landing_failure = available(_landing_failure)
    SparkAdapter._available_ = SparkAdapter._available_ | {"land_new_files", "landing_failure"}
    CapturedException.getMessage = _message  # type: ignore[method-assign]


_install()
