"""`tidemark up`: a warm Spark for this lake, on this machine, used by all commands and by dbt.

It serves Spark Connect on loopback, with the settings of embedded Spark. A token, which only this
user can read, is required. It holds the lake's lock. Commands that use it take a lock of their own,
so one of them writes at a time. A second process has the imports that commands need (`ready`).

Imports Spark late: a command that has nothing to do needs only `hold`.
"""

import atexit
import os
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

from tidemark import paths
from tidemark.errors import SetupError
from tidemark.spark import lock, processes, spark_line
from tidemark.spark.processes import Ports, Server

_CLIENTS = "clients.lock"
_TOKEN = "token"


def running() -> Server | None:
    """The warm Spark of this lake, or None. A process that ended without `down` is forgotten."""
    server = processes.running()
    if server is None or not server.is_warm:
        return None
    if "spark" in server.dead:
        processes.state_file().unlink(missing_ok=True)
        return None
    return server


def hold() -> None:
    """Lock the lake for this process, or if a Spark is warm, lock it against other clients.

    A client that was killed may have left a statement running, so its Spark is stopped. Waits and
    raises as `lock.hold`.
    """
    lake = paths.lake_dir()
    if lock.is_held(lake):
        return
    while server := running():
        lock.hold(lake, _CLIENTS)
        if server != running():
            # It was stopped while this process waited.
            lock.done(lake)
            continue
        if not lock.left_behind(lake):
            atexit.register(lock.done, lake)
            return
        print(
            f"{lock.left_behind(lake)} was killed, and Spark may still run its statements. So "
            "Spark is stopped. To start it again: tidemark up",
            file=sys.stderr,
        )
        _kill(server)
        lock.done(lake)
    try:
        lock.hold(lake, until=running)
    except lock.NotNeededError:
        # What has the lock was a Spark that was just starting.
        hold()


def url() -> str:
    """The URL of Spark Connect with its token, or '' without a warm Spark."""
    server = running()
    if server is None:
        return ""
    token = (processes.folder() / _TOKEN).read_text()
    return f"sc://localhost:{server.ports.connect}/;token={token};use_ssl=false"


def up(more: Sequence[str] = ()) -> Server:
    """Start the warm Spark and wait until it responds. Returns the one that already runs.

    `more` has additional Spark settings, as key=value. Raises LakeBusyError if another process has
    the lake, and SetupError, with the end of the log, if Spark does not start.
    """
    from tidemark import formats
    from tidemark.spark import class_archive, jars, ready, server, session

    there = running()
    if there:
        print(f"Spark is already up. {_told(there)}")
        return there
    server.require_connect()
    jars.require_java()
    jars.prepare()
    if processes.running():
        raise SetupError("A Thrift server runs on this lake. First stop it: tidemark thrift stop")
    lake = paths.lake_dir()
    lock_file = lock.hold(lake)
    spark_line.claim(lake)
    formats.claim()
    folder = processes.folder()
    # What a killed Spark has left.
    shutil.rmtree(folder / "scratch", ignore_errors=True)
    (folder / "scratch").mkdir(parents=True)
    token = folder / _TOKEN
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    port = _free_port()
    settings = session.settings() | {
        "spark.app.name": "tidemark up",
        "spark.local.dir": str(folder / "scratch"),
        # Commands add no jars or Python files, so their sessions can share generated code.
        "spark.sql.artifact.isolation.enabled": "false",
    }
    java_options = f"{class_archive.java_options()} {settings['spark.driver.extraJavaOptions']}"
    settings["spark.driver.extraJavaOptions"] = java_options
    command = processes.spark_submit(settings, port, more, "ConnectServer")
    log = folder / "spark.log"
    process = processes.spawn(
        command, log, {processes.TOKEN_VARIABLE: token.read_text()}, lock_file
    )
    started = {"spark": process}
    try:
        started["commands"] = ready.start(process)
        processes.wait(process, port, log)
        ready.wait(started["commands"])
        there = processes.keep(Server(Ports(0, port, 0), started))
        lock.hand_over(lake, process, "tidemark up")
        session.remove_unborn_tables(session.get())
    except BaseException:
        processes.end(started)
        raise
    print(f"Spark is up. {_told(there)}")
    return there


def down() -> None:
    """Stop the warm Spark, after the command that uses it has ended."""
    if running() is None:
        print("Spark is not up for this lake.")
        return
    hold()
    server = running()
    if server:
        processes.end(server.processes)
    print("Stopped.")


def kill() -> None:
    """End the warm Spark at once, if there is one. What it writes is not completed."""
    server = running()
    if server:
        _kill(server)


def delete_temporary_files() -> str:
    """Delete the shuffle files of the warm Spark's finished queries; its folder if others stay.

    Spark keeps them until Java collects what used them. For the holder of the warm Spark: nobody
    else's query reads them.
    """
    folder = processes.folder() / "scratch"
    if running() is None:
        return ""
    there = [file for file in folder.glob("blockmgr-*/*/*") if file.is_file()]
    finished = [file for file in there if file.name.startswith(("shuffle_", "temp_"))]
    for file in finished:
        file.unlink(missing_ok=True)
    return str(folder) if len(finished) < len(there) else ""


def _told(server: Server) -> str:
    return (
        f"Commands and dbt on this lake now use it: process {server.processes['spark']}, log in "
        f"{processes.folder() / 'spark.log'}. To stop it: tidemark down"
    )


def _kill(server: Server) -> None:
    """End Spark at once: it must not complete anything."""
    with suppress(ProcessLookupError):
        os.kill(server.processes["spark"], signal.SIGKILL)
    processes.end(server.processes)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
