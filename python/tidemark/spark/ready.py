"""A process of `tidemark up` that has imported dbt and PySpark, and forks for each command.

These imports take three seconds, and dbt's first parse another one, which is long beside a warm
Spark. The command that a person starts passes on its arguments, environment, folder and streams,
and waits. A fork runs it as if it had been started alone: it takes the lock, and ends its session.
A fork dies with its command.

This module is the entry point of `tidemark`, so it imports little.
"""

import gc
import importlib
import io
import json
import os
import shutil
import signal
import socket
import sys
import sysconfig
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from tidemark import paths
from tidemark.errors import ConfigError
from tidemark.spark import processes

# What commands need. Nothing that has threads: a fork has none of those of its parent.
_IMPORTED = (
    *("dbt.cli.main", "dbt.adapters.spark", "deltalake", "pandas", "pyarrow.parquet"),
    *("pyspark.sql.connect.session", "tidemark.dbt_plugin.dbt", "tidemark.runs", "tidemark.cli"),
)
# They start or stop this process.
_NOT_PASSED_ON = ("up", "down", "watch", "thrift")
# Imports set these variables. All others are those of the command.
_KEPT = ("TZ", "PYARROW_IGNORE_TIMEZONE")
# Where the process listens, and what it has imported.
_NOTE = "server/commands.json"
_STREAMS = ("stdin", "stdout", "stderr")
# How Python has opened them, which depends on the terminal and on its variables.
_HOW = ("encoding", "line_buffering", "write_through")
_TAKEN = b"."
_INTERRUPT = b"i"
_KILLED = 128 + signal.SIGKILL


def main() -> int:
    """Run one command, in a fork if `tidemark up` has started one. Returns the exit code."""
    arguments = sys.argv[1:]
    is_alone = not arguments or arguments[0].startswith("-") or arguments[0] in _NOT_PASSED_ON
    command = None if is_alone else begin(arguments)
    if command is None:
        from tidemark import cli

        return cli.main()

    def interrupt(number: int, frame: FrameType | None) -> None:
        with suppress(OSError):
            command.sendall(_INTERRUPT)

    signal.signal(signal.SIGINT, interrupt)
    code = end(command)
    if code == _KILLED:
        print("tidemark: the command was killed.", file=sys.stderr)
    return code


def begin(arguments: Sequence[str]) -> socket.socket | None:
    """Begin a command in a fork. None if no process waits, or it has imported something else."""
    if None in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        # One is closed, so its number may be that of another file.
        return None
    try:
        told = json.loads(_note().read_text())
        place = Path(told["socket"])
        if told["stamp"] != _stamp() or place.stat().st_uid != os.getuid():
            return None
        command = socket.socket(socket.AF_UNIX)
        command.connect(str(place))
        sys.stdout.flush()
        sys.stderr.flush()
        umask = os.umask(0)
        os.umask(umask)
        passed = {
            "arguments": [sys.argv[0], *arguments],
            "environment": dict(os.environ),
            "folder": str(Path.cwd()),
            "umask": umask,
            "streams": [[getattr(getattr(sys, f"__{n}__"), how) for how in _HOW] for n in _STREAMS],
        }
        content = json.dumps(passed).encode()
        socket.send_fds(command, [len(content).to_bytes(8)], [0, 1, 2])
        command.sendall(content)
        if not command.recv(len(_TAKEN)):
            return None
    except (OSError, ValueError, KeyError, ConfigError):
        return None
    return command


def end(command: socket.socket) -> int:
    """Wait until a command's process has ended. Returns its exit code."""
    found = b""
    with suppress(ConnectionResetError):
        while more := command.recv(64):
            found += more
    return int(found) if found else _KILLED


def start(spark: int) -> int:
    """Start the process, which ends when the process `spark` has ended. Returns its id."""
    _note().unlink(missing_ok=True)
    # The last argument tells whose process it is: see `processes.is_ours`.
    code = f"{processes.READY}; ready.serve({spark})"
    command = [sys.executable, "-c", code, f"{processes.folder()}/"]
    # It begins in the lake, which may be outside the project.
    project = {"DBT_PROJECT_DIR": str(paths.project_dir())}
    return processes.spawn(command, processes.folder() / "commands.log", project)


def wait(process: int) -> None:
    """Wait until the process waits for commands, or has failed. Then commands run alone."""
    while not _note().exists() and processes.is_ours(process):
        time.sleep(0.1)


def serve(spark: int) -> None:
    """Import, and fork for each command. In a fork, runs the command and exits."""
    # As for a command that is started alone.
    sys.path[0] = str(Path(sys.executable).parent)
    stamp = _stamp()
    for name in _IMPORTED:
        importlib.import_module(name)
    _rehearse()
    # A socket's path must be short, and a lake's may be long. Only this user can enter the folder.
    folder = tempfile.mkdtemp(prefix="tidemark-")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/commands")
        listening.listen()
        paths.write_note(_NOTE, {"socket": f"{folder}/commands", "stamp": stamp})
        command = _command(listening, lambda: processes.is_ours(spark))
    if command:
        sys.exit(_perform(command))
    _note().unlink(missing_ok=True)
    shutil.rmtree(folder)


def _rehearse() -> None:
    """Let dbt parse the project, and compile all macros, which forks then need not do.

    dbt keeps compiled macros by their text, so a fork compiles those that have changed.
    """
    from dbt_common.clients.jinja import template_cache

    from tidemark.dbt_plugin import dbt
    from tidemark.shared import shared

    # Each command tells what is wrong with the project.
    with suppress(Exception), redirect_stdout(io.StringIO()):
        for macro in dbt.parse().macros.values():
            template_cache.get_node_template(macro)
    # What it has read of the project's files may change.
    shared.method = ""
    for module in [each for name, each in sys.modules.items() if name.startswith("tidemark.")]:
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()
    # Garbage collection in a fork would copy the memory that it shares.
    gc.freeze()


def _command(listening: socket.socket, goes_on: Callable[[], bool]) -> socket.socket | None:
    """In a fork, its command. In the parent None, when it is to end."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    # Nobody waits for a fork's end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listening.settimeout(1)
    while goes_on() and not stopped.is_set():
        try:
            command, _ = listening.accept()
        except TimeoutError:
            continue
        # Without memory for a fork, the command runs alone.
        with command, suppress(OSError):
            if not os.fork():
                return command.dup()
    return None


def _perform(command: socket.socket) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    command.settimeout(None)
    length, streams, _, _ = socket.recv_fds(command, 8, 3)
    content = b""
    while more := command.recv(int.from_bytes(length) - len(content)):
        content += more
    if len(content) < int.from_bytes(length):
        return 1
    passed = json.loads(content)
    command.sendall(_TAKEN)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for number, (name, how) in enumerate(zip(_STREAMS, passed["streams"], strict=True)):
        told = dict(zip(_HOW, how, strict=True))
        buffering = 0 if told["write_through"] and number else -1
        binary = os.fdopen(number, "wb" if number else "rb", buffering, closefd=False)
        setattr(sys, name, io.TextIOWrapper(binary, **told))
    kept = {name: os.environ[name] for name in _KEPT}
    os.environ.clear()
    os.environ.update(passed["environment"] | kept)
    os.umask(passed["umask"])
    os.chdir(passed["folder"])
    sys.argv = passed["arguments"]
    threading.Thread(target=_follow, args=(command,), daemon=True).start()
    code = _code()
    command.sendall(str(code).encode())
    return code


def _follow(command: socket.socket) -> None:
    """Interrupt this process as the command is interrupted, and kill it as it is killed."""
    while command.recv(1):
        os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGKILL)


def _code() -> int:
    """The command's exit code, as Python has it."""
    from tidemark import cli

    try:
        return cli.main()
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException as error:
        traceback.print_exc()
        return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def _note() -> Path:
    return paths.lake_dir() / _NOTE


def _stamp() -> list[Any]:
    """What a process imports: another one must not run a command."""
    package = Path(__file__).parent.parent
    files = [package.parent / "dbt_tidemark.py", *package.rglob("*.py")]
    newest = max(file.stat().st_mtime_ns for file in files)
    installed = Path(sysconfig.get_path("purelib")).stat().st_mtime_ns
    own = [os.path.realpath(sys.prefix), str(package), os.environ.get("PYTHONPATH")]
    return [*own, len(files), newest, installed]
