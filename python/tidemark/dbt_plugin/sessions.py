"""Separate sessions of embedded Spark for each dbt connection.

dbt-spark shares one SparkSession between all threads. So temporary views with the same name mix
rows of several models, and a `set` in one model affects later ones (dbt-adapters issue 1289).
"""

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import dbt.adapters.spark.session as spark_session
from dbt_common.exceptions import DbtRuntimeError
from pyspark.errors.exceptions.captured import CapturedException

from tidemark.dbt_plugin import hook
from tidemark.errors import TidemarkError
from tidemark.ingest import books
from tidemark.spark import session


def _connect(
    self: spark_session.Connection, *, server_side_parameters: Mapping[str, str] | None = None
) -> None:
    """Replaces session.Connection.__init__: each dbt connection gets its own session."""
    self.server_side_parameters = dict(server_side_parameters or {})
    try:
        self.spark = session.fresh()
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
    """Replaces session.Cursor.execute: uses the connection's session, with readable errors."""
    statement = sql % parameters if parameters else sql
    hook.refuse(statement)
    try:
        self._df = self.spark.sql(statement)
    except Exception as error:
        raise DbtRuntimeError(session.readable(error)) from error


def _fetchall(self: spark_session.Cursor) -> list[Any] | None:
    """Replaces session.Cursor.fetchall: a query runs here, so its errors appear here."""
    if self._rows is None and self._df is not None:
        try:
            self._rows = self._df.collect()
        except Exception as error:
            raise DbtRuntimeError(session.readable(error)) from error
    return self._rows  # type: ignore[no-any-return]


def literal(cls: type, value: Any) -> str:
    """Replaces SessionConnectionWrapper._fix_binding: a seed's value as an SQL literal.

    dbt-spark writes NULL as 'None', fails on quotes and converts numbers to float. A dollar sign is
    escaped, because Spark replaces `${name}` by a setting even within a literal.
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
    return books.literal(str(value)).replace("\n", "\\n").replace("$", "\\u0024")


# PySpark 3.5 does not have this method, and does not need the replacement.
_get_message = getattr(CapturedException, "getMessage", None)


def _message(self: CapturedException) -> str:
    """Replaces CapturedException.getMessage, which fails on Delta's error classes."""
    assert _get_message
    try:
        return str(_get_message(self))
    except Exception:
        return str(self._desc)


def install() -> None:
    """Install the replacements."""
    spark_session.Connection.__init__ = _connect
    spark_session.Connection.cursor = _cursor
    spark_session.Cursor.execute = _execute
    spark_session.Cursor.fetchall = _fetchall
    spark_session.SessionConnectionWrapper._fix_binding = classmethod(literal)
    if _get_message:
        CapturedException.getMessage = _message  # type: ignore[method-assign]
