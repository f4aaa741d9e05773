"""`tidemark thrift`: a Spark Thrift Server with Spark Connect for this lake, on this machine.

It runs two processes on loopback: Hive's metastore, which holds the lake's lock, and a Spark that
serves Thrift (SQL, for dbt and BI tools) and Connect (DataFrames, for landing and Python models).
All of it comes from PySpark's jars. Janino, which is part of Spark, compiles the three Java files
in this folder at the start.
"""

import base64
import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tidemark import formats, paths
from tidemark.errors import ConfigError, SetupError
from tidemark.spark import jars, lock, processes, session, spark_line
from tidemark.spark.processes import Ports, Server, running

__all__ = ["Ports", "Server", "is_connected", "running", "start", "status", "stop"]

USER_VARIABLE = "TIDEMARK_THRIFT_USER"
DEFAULT_USER = "tidemark"
_ROUNDS = 100_000  # the same as in PasswordFile.java


def start(ports: Ports, master: str = "", *, more: Sequence[str] = ()) -> Server:
    """Start both processes and wait until they respond. Returns a server that already runs.

    `master` is Spark's master (default: from spark-defaults.conf). `more` has additional Spark
    settings, as key=value. The password comes from DBT_ENV_SECRET_TIDEMARK_PASSWORD. Raises
    ConfigError without a password, LakeBusyError if another process has the lake, and SetupError,
    with the end of the log, if a port is in use or a process does not start.
    """
    there = running()
    if there and there.is_warm and not there.dead:
        raise SetupError("Spark is up for this lake. First stop it: tidemark down")
    if there and not there.dead:
        print(f"The server is already running. {_addresses(there.ports)}")
        return there
    if there:
        stop()
    require_connect()
    password = os.environ.get(processes.PASSWORD_VARIABLE)
    if not password:
        raise ConfigError(
            f"The server requires a password. Set {processes.PASSWORD_VARIABLE}, both here and "
            "where dbt runs."
        )
    jars.require_java()
    class_path = [
        *jars.install(),
        *jars.install([spark_line.lock_folder() / jars.THRIFT_LOCK]),
    ]
    for name, port in asdict(ports).items():
        _require_free(name, port)
    lock_file = lock.hold(paths.lake_dir())
    spark_line.claim(paths.lake_dir())
    formats.claim()
    folder = processes.folder()
    folder.mkdir(parents=True, exist_ok=True)
    _write_password(folder / "password", password)
    print("Starting the metastore and Spark (about half a minute)")
    server = Server(ports, {})
    try:
        metastore = _metastore_command(ports.metastore)
        server = _with(server, "metastore", metastore, {}, lock_file)
        processes.wait(server.processes["metastore"], ports.metastore, folder / "metastore.log")
        spark = _spark_command(ports, master, class_path, folder / "password", more)
        secret = {processes.TOKEN_VARIABLE: password}
        server = _with(server, "spark", spark, secret, lock_file)
        lock.hand_over(paths.lake_dir(), server.processes["spark"], "tidemark thrift start")
        for port in (ports.thrift, ports.connect):
            processes.wait(server.processes["spark"], port, folder / "spark.log")
    except BaseException:
        processes.end(server.processes)
        raise
    print(_addresses(ports))
    return server


def require_connect() -> None:
    """Raise SetupError if PySpark has no Spark Connect server."""
    if spark_line.name() != "4.1":
        raise SetupError(
            f"PySpark {spark_line.name()} does not include Spark Connect's server. Start your own "
            "server, or use the environment of Spark 4.1."
        )


def stop() -> None:
    """Stop the server."""
    server = running()
    if server is None:
        print("No server is running on this lake.")
        return
    processes.end(server.processes)
    print("Stopped.")


def status() -> bool:
    """Report whether the server runs, and where. Returns whether it runs."""
    server = running()
    if server is None:
        print("No server is running on this lake.")
        return False
    if server.dead:
        print(
            f"The server's process {' and '.join(server.dead)} has ended. Its log is in "
            f"{processes.folder()}. To restart it: tidemark thrift start"
        )
        return False
    print(f"The server is running. {_addresses(server.ports)}")
    return True


def is_connected() -> bool:
    """Whether the target connects to the server of this lake."""
    server = running()
    ours = f"sc://localhost:{server.ports.connect}" if server and not server.dead else ""
    return bool(ours) and session.connect_url().rstrip("/") == ours


def _addresses(ports: Ports) -> str:
    user = os.environ.get(USER_VARIABLE, DEFAULT_USER)
    return (
        f"Thrift: localhost:{ports.thrift}, user {user}. Connect: sc://localhost:{ports.connect}. "
        f"Metastore: thrift://localhost:{ports.metastore}. Logs: {processes.folder()}"
    )


def _write_password(file: Path, password: str) -> None:
    salt = secrets.token_bytes(16)
    key = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ROUNDS)
    user = os.environ.get(USER_VARIABLE, DEFAULT_USER)
    lines = [user, base64.b64encode(salt).decode(), base64.b64encode(key).decode()]
    file.touch(mode=0o600)
    file.write_text("\n".join(lines))


def _metastore_command(port: int) -> list[str]:
    lake = paths.lake_dir()
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={lake}/metastore;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        # Otherwise Hive rejects a database without a version, such as embedded Spark creates.
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": paths.warehouse(),
        # The same as in spark-defaults.conf, for the embedded metastore.
        "hive.stats.autogather": "false",
        "hive.metastore.disallow.incompatible.col.type.changes": "false",
        # Otherwise Hive needs a jar that PySpark does not include.
        "hive.async.log.enabled": "false",
        "derby.system.home": str(lake),
        "derby.stream.error.file": f"{lake}/derby.log",
        "log4j2.configurationFile": f"file:{session.SETTINGS}/log4j2.properties",
    }
    return [
        *[jars.require_java(), "-cp", f"{processes.spark_home()}/jars/*"],
        *["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        *[f"-D{name}={value}" for name, value in settings.items()],
        *[processes.JAVA_COMPILER, "-sourcepath", str(processes.JAVA_SOURCES)],
        *["MetastoreServer", str(port)],
    ]


def _spark_command(
    ports: Ports, master: str, class_path: Sequence[Path], password: Path, more: Sequence[str]
) -> list[str]:
    settings = session.settings()
    del settings["spark.hadoop.javax.jdo.option.ConnectionURL"]
    joined = os.pathsep.join(map(str, class_path))
    settings |= {
        "spark.app.name": "tidemark thrift",
        "spark.driver.extraClassPath": joined,
        "spark.executor.extraClassPath": joined,
        "spark.hadoop.hive.metastore.uris": f"thrift://127.0.0.1:{ports.metastore}",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    }
    settings["spark.driver.extraJavaOptions"] += f" -Dtidemark.password={password}"
    if master:
        settings["spark.master"] = master
    hive = {
        "hive.server2.thrift.bind.host": "127.0.0.1",
        "hive.server2.thrift.port": str(ports.thrift),
        "hive.server2.authentication": "CUSTOM",
        "hive.server2.custom.authentication.class": "PasswordFile",
        # Statements run as the user who started the server.
        "hive.server2.enable.doAs": "false",
    }
    return processes.spark_submit(
        settings,
        ports.connect,
        more,
        "ThriftServer",
        *(part for name in hive for part in ("--hiveconf", f"{name}={hive[name]}")),
    )


def _with(
    server: Server, name: str, command: Sequence[str], secret: Mapping[str, str], lock_file: int
) -> Server:
    """Start one more process, and store it at once so that `stop` finds it."""
    log = processes.folder() / f"{name}.log"
    process = processes.spawn(command, log, secret, lock_file)
    return processes.keep(Server(server.ports, {**server.processes, name: process}))


def _require_free(name: str, port: int) -> None:
    if processes.answers("localhost", port):
        option = "--port" if name == "thrift" else f"--{name}-port"
        raise SetupError(f"Port {port} is in use by another program. Set another with {option}.")
