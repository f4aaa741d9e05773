"""Connections to a Thrift server: statements, errors and settings."""

import time
from collections.abc import Sequence
from typing import Any

import dbt.adapters.spark.connections as spark_connections
from dbt.adapters.exceptions import FailedToConnectError
from dbt_common.exceptions import DbtRuntimeError
from pyhive import hive
from TCLIService.ttypes import TOperationState
from thrift.transport.TTransport import TTransportException

from tidemark import targets
from tidemark.dbt_plugin import hook, sessions
from tidemark.spark import session

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

    dbt-spark polls at most once per second, converts numbers of seeds to float, and sends a
    statement again if the connection is lost, although the server may have run it.
    """
    statement = sql.strip().removesuffix(";")
    if bindings:
        statement %= tuple(sessions.literal(type(self), value) for value in bindings)
    hook.refuse(statement)
    assert self._cursor
    pause = 0.01
    try:
        self._cursor.execute(statement, async_=True)
        while (answer := self._cursor.poll()).operationState in _RUNNING:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
    except spark_connections.CONNECTION_LOST_EXCEPTIONS as error:
        raise DbtRuntimeError(
            "The connection to the Thrift server was lost while a statement ran. The server may "
            "have completed it, so it was not sent again. Run dbt again to complete the build. "
            f"({error})"
        ) from error
    except hive.OperationalError as error:
        raise DbtRuntimeError(_thrift_message(error)) from error
    if answer.operationState != TOperationState.FINISHED_STATE:
        state = TOperationState._VALUES_TO_NAMES.get(answer.operationState, "an unknown state")
        raise DbtRuntimeError(session.readable_text(answer.errorMessage or f"It ended in {state}."))


def _thrift_message(error: Exception) -> str:
    """The server's error message from Thrift's response."""
    status = getattr(error.args[0], "status", None) if error.args else None
    return session.readable_text(getattr(status, "errorMessage", None) or str(error))


_open_connection = spark_connections.SparkConnectionManager.open


def _open(cls: type, connection: Any) -> Any:
    """Replaces SparkConnectionManager.open: passes the settings, and gives clear errors."""
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
                f"{place} refused the user {credentials.user}. Check TIDEMARK_THRIFT_USER, "
                "DBT_ENV_SECRET_TIDEMARK_PASSWORD and TIDEMARK_THRIFT_AUTH."
            )
        elif isinstance(error.__cause__, TTransportException) or "Could not connect" in text:
            cure = (
                f"{place} does not respond. Start it (on this machine: tidemark thrift start), or "
                "set TIDEMARK_THRIFT_HOST and TIDEMARK_THRIFT_PORT to its address."
            )
        else:
            cure = f"{place} refused the session."
        raise FailedToConnectError(f"{cure[0].upper()}{cure[1:]} ({text})") from error


def _complete(credentials: spark_connections.SparkCredentials) -> None:
    """Complete the credentials for a Thrift server.

    The server accepts session settings only with the prefix `set:hiveconf:`, which dbt-spark does
    not add, and ignores others.
    """
    if credentials.method == "thrift":
        credentials.auth = (credentials.auth or "NONE").upper()
        sends_password = credentials.auth in ("CUSTOM", "LDAP")
        # A profile cannot omit a setting, but PyHive refuses settings of other auth methods.
        credentials.password = (sends_password and credentials.password) or None
        credentials.kerberos_service_name = credentials.kerberos_service_name or None
        if sends_password and not credentials.password:
            raise DbtRuntimeError(
                "The Thrift server requires a password. Set DBT_ENV_SECRET_TIDEMARK_PASSWORD, or, "
                "if the server needs no login, set TIDEMARK_THRIFT_AUTH to NONE."
            )
        wanted = {
            **session.essential(),
            **credentials.server_side_parameters,
            **session.of_run(),
        }
        credentials.server_side_parameters = {
            name if name.startswith("set:") else f"set:hiveconf:{name}": value
            for name, value in wanted.items()
        }


def install() -> None:
    """Install the replacements."""
    spark_connections.PyhiveConnectionWrapper.execute = _execute_remotely
    spark_connections.SparkConnectionManager.open = classmethod(_open)
