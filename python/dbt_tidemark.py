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
from importlib.util import find_spec
from typing import Any

import dbt.adapters.spark.connections as spark_connections
import dbt.adapters.spark.session as spark_session
from dbt.adapters.base import PythonJobHelper, available
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.spark.impl import (
    SCHEMA_NOT_FOUND_MESSAGES,
    TABLE_OR_VIEW_NOT_FOUND_MESSAGES,
    SparkAdapter,
)
from dbt_common.exceptions import DbtRuntimeError
from pyhive import hive
from pyspark.errors.exceptions.captured import CapturedException
from TCLIService.ttypes import TOperationState
from thrift.transport.TTransport import TTransportException

from tidemark import targets
from tidemark.dbt_plugin import hook
from tidemark.errors import TidemarkError
from tidemark.spark import session

logging.getLogger("py4j").setLevel(logging.ERROR)


# Why the hook at dbt's end must fail, while it does; see the macro `give_back_lake`.
_failures_at_end: list[str] = []


def _refuse(statement: str) -> None:
    """A failure of the hook at dbt's end is no SQL: it is what fails."""
    for failure in _failures_at_end:
        if failure in statement:
            _failures_at_end.clear()
            raise DbtRuntimeError(failure)


# --- Sessions -------------------------------------------------------------------------------
# dbt-spark gives every thread one SparkSession: temporary views of models that share a name mix
# their rows, and a `set` in one model stays for all that follow (dbt-adapters issue 1289).


def _connect(
    self: spark_session.Connection, *, server_side_parameters: Mapping[str, str] | None = None
) -> None:
    """Replaces session.Connection.__init__: a session of its own for each dbt connection."""
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
    """Replaces session.Cursor.execute: on the connection's session, with readable errors."""
    statement = sql % parameters if parameters else sql
    _refuse(statement)
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


# --- Thrift ---------------------------------------------------------------------------------

_LONGEST_PAUSE = 1.0
_RUNNING = (
    TOperationState.INITIALIZED_STATE,
    TOperationState.PENDING_STATE,
    TOperationState.RUNNING_STATE,
)


def _execute_remotely(
    self: spark_connections.PyhiveConnectionWrapper,
    sql: str,
    bindings: Sequence[Any] | None = None,
) -> None:
    """Replaces PyhiveConnectionWrapper.execute.

    dbt-spark asks every second, or slower, whether a statement is done; sends numbers of seeds
    through a float; and sends a statement again when the connection is lost, though the server
    may have carried it out.
    """
    statement = sql.strip().removesuffix(";")
    if bindings:
        statement %= tuple(_literal(type(self), value) for value in bindings)
    _refuse(statement)
    assert self._cursor
    pause = 0.01
    try:
        self._cursor.execute(statement, async_=True)
        while (answer := self._cursor.poll()).operationState in _RUNNING:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
    except spark_connections.CONNECTION_LOST_EXCEPTIONS as error:
        raise DbtRuntimeError(
            "The connection to the Thrift server was lost while a statement ran. Whether it was "
            "carried out is not known, so it was not sent again: run dbt again, which does what "
            f"is missing. ({error})"
        ) from error
    except hive.OperationalError as error:
        raise DbtRuntimeError(_thrift_message(error)) from error
    if answer.operationState != TOperationState.FINISHED_STATE:
        state = TOperationState._VALUES_TO_NAMES.get(answer.operationState, "an unknown state")
        raise DbtRuntimeError(session.readable_text(answer.errorMessage or f"It ended in {state}."))


def _thrift_message(error: Exception) -> str:
    """What the server says of a statement, out of Thrift's own answer."""
    status = getattr(error.args[0], "status", None) if error.args else None
    return session.readable_text(getattr(status, "errorMessage", None) or str(error))


_open_connection = spark_connections.SparkConnectionManager.open


def _open(cls: type, connection: Any) -> Any:
    """Replaces SparkConnectionManager.open: with the settings that count, and clear errors."""
    targets.use_method(connection.credentials.method)
    _complete(connection.credentials)
    try:
        return _open_connection.__func__(cls, connection)
    except Exception as error:
        credentials = connection.credentials
        if credentials.method != "thrift":
            raise
        place = f"the Thrift server at {credentials.host}:{credentials.port}"
        text = str(error)
        if "validating the login" in text or "Unsupported mechanism" in text:
            cure = (
                f"{place} refuses the user {credentials.user}: check TIDEMARK_THRIFT_USER, "
                "DBT_ENV_SECRET_TIDEMARK_PASSWORD and TIDEMARK_THRIFT_AUTH."
            )
        elif isinstance(error.__cause__, TTransportException) or "Could not connect" in text:
            cure = (
                f"{place} does not answer: is it running? On this machine `tidemark thrift start` "
                "starts it; elsewhere TIDEMARK_THRIFT_HOST and TIDEMARK_THRIFT_PORT say where it "
                "is."
            )
        else:
            cure = f"{place} refuses the session."
        raise FailedToConnectError(f"{cure[0].upper()}{cure[1:]} ({text})") from error


def _complete(credentials: spark_connections.SparkCredentials) -> None:
    """Make the credentials of a Thrift server such that they reach it.

    It takes a session's settings by names that begin with `set:hiveconf:` alone, and passes over
    all others; dbt-spark knows nothing of that.
    """
    if credentials.method == "thrift":
        credentials.auth = (credentials.auth or "NONE").upper()
        sends_password = credentials.auth in ("CUSTOM", "LDAP")
        # A profile has no way to leave a setting out; PyHive refuses those of another way.
        credentials.password = (sends_password and credentials.password) or None
        credentials.kerberos_service_name = credentials.kerberos_service_name or None
        if sends_password and not credentials.password:
            raise DbtRuntimeError(
                "The Thrift server wants a password: set DBT_ENV_SECRET_TIDEMARK_PASSWORD, or "
                "TIDEMARK_THRIFT_AUTH to NONE if it takes everyone."
            )
        wanted = {**session.ESSENTIAL, **credentials.server_side_parameters}
        credentials.server_side_parameters = {
            name if name.startswith("set:") else f"set:hiveconf:{name}": value
            for name, value in wanted.items()
        }


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


class PythonModelHelper(PythonJobHelper):  # type: ignore[misc]
    """Runs a Python model in this process, on the embedded Spark or over Spark Connect.

    dbt-spark itself only knows Databricks.
    """

    def __init__(self, parsed_model: dict[str, Any], credentials: Any) -> None:
        self.model = parsed_model
        targets.use_method(credentials.method)
        if credentials.method not in ("session", "thrift"):
            raise DbtRuntimeError(
                f"{parsed_model['original_file_path']}: a Python model runs on targets with "
                f"method session or thrift; this target's is {credentials.method}."
            )

    def submit(self, compiled_code: str) -> None:
        """Execute the model's code; an error names the model's file and, if it has one, its line.

        dbt writes blank lines above the model's code, and below it what runs the model.
        """
        path = self.model["original_file_path"]
        try:
            spark = session.fresh()
        except TidemarkError as error:
            raise DbtRuntimeError(f"{path}: {error}") from error
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
        finally:
            if session.is_remote():
                spark.stop()


# --- Errors ---------------------------------------------------------------------------------

# PySpark 3.5 has no such method, and does not fail.
_get_message = getattr(CapturedException, "getMessage", None)


def _message(self: CapturedException) -> str:
    """Replaces CapturedException.getMessage: Spark does not know Delta's error classes."""
    assert _get_message
    try:
        return str(_get_message(self))
    except Exception:
        return str(self._desc)


# --- Landing --------------------------------------------------------------------------------


def _land_new_files(self: SparkAdapter, sources: Sequence[Mapping[str, Any]]) -> str:
    """New on SparkAdapter, for the macro `land_new_files`: land before the first model."""
    method = self.config.credentials.method
    targets.use_method(method)
    if method not in ("session", "thrift"):
        return ""
    if method == "thrift" and not session.connect_url():
        return f"Nothing is landed from here: {session.CONNECT_VARIABLE} is not set."
    try:
        return hook.land_for_dbt(sources)
    except TidemarkError as error:
        raise DbtRuntimeError(str(error)) from error


def _landing_failure(self: SparkAdapter, name: str) -> str:
    """New on SparkAdapter, for the macro `feed`: a table that failed to land is not built."""
    return hook.landing_failure(name)


def _give_back_lake(
    self: SparkAdapter, nodes: Sequence[Mapping[str, Any]] | None
) -> dict[str, str]:
    """New on SparkAdapter, for the macro `give_back_lake`: dbt has written its last table."""
    method = self.config.credentials.method
    has_tables = nodes is not None and method in ("session", "thrift")
    if has_tables:
        targets.use_method(method)
    lines, failure = hook.end_of_run(nodes if has_tables else None)
    _failures_at_end[:] = [failure] if failure else []
    return {"lines": lines, "failure": failure}


def _install() -> None:
    spark_session.Connection.__init__ = _connect
    spark_session.Connection.cursor = _cursor
    spark_session.Cursor.execute = _execute
    spark_session.Cursor.fetchall = _fetchall
    spark_session.SessionConnectionWrapper._fix_binding = classmethod(_literal)
    spark_connections.PyhiveConnectionWrapper.execute = _execute_remotely
    spark_connections.SparkConnectionManager.open = classmethod(_open)
    SparkAdapter.list_relations_without_caching = _list_relations_safely
    SparkAdapter.python_submission_helpers = property(
        lambda self: {"session": PythonModelHelper, "connect": PythonModelHelper}
    )
    SparkAdapter.default_python_submission_method = property(
        lambda self: "connect" if self.config.credentials.method == "thrift" else "session"
    )
    SparkAdapter.land_new_files = available(_land_new_files)
    SparkAdapter.landing_failure = available(_landing_failure)
    SparkAdapter.give_back_lake = available(_give_back_lake)
    SparkAdapter._available_ = SparkAdapter._available_ | {
        *("land_new_files", "landing_failure", "give_back_lake")
    }
    if _get_message:
        CapturedException.getMessage = _message  # type: ignore[method-assign]
    if find_spec("dbt.adapters.glue"):
        from tidemark.aws import glue_adapter

        glue_adapter.install(lambda value: _literal(spark_session.SessionConnectionWrapper, value))


_install()
