"""The server's processes: their state in the lake, how they start and end. Needs no Spark."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from tidemark import paths
from tidemark.errors import SetupError

PASSWORD_VARIABLE = "DBT_ENV_SECRET_TIDEMARK_PASSWORD"
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
# What the process does first that forks for commands.
READY = "from tidemark.spark import ready"
# The Java sources of the servers.
JAVA_SOURCES = Path(__file__).parent / "server"
# It compiles and runs them.
JAVA_COMPILER = "org.codehaus.janino.JavaSourceClassLoader"
# The file in the lake with the started server.
_STATE = "server/server.json"
_START_SECONDS = 180


@dataclass(frozen=True)
class Ports:
    """The ports of the three services, on loopback. 0 for a service that does not run."""

    thrift: int = 10000
    connect: int = 15002
    metastore: int = 9083


@dataclass(frozen=True)
class Server:
    """A started server, as stored in the lake's file `server/server.json`."""

    ports: Ports
    processes: Mapping[str, int]

    @property
    def is_warm(self) -> bool:
        """Whether `tidemark up` started it. It has no Thrift."""
        return not self.ports.thrift

    @property
    def dead(self) -> list[str]:
        """The names of its processes that no longer run."""
        return [name for name, process in self.processes.items() if not is_ours(process)]


def running() -> Server | None:
    """The server that was started on this lake and not stopped, or None."""
    kept = paths.note(_STATE)
    if not kept:
        return None
    return Server(Ports(**kept["ports"]), kept["processes"])


def folder() -> Path:
    """The folder in the lake with the server's state and logs."""
    return paths.lake_dir() / "server"


def state_file() -> Path:
    """Where a started server is stored."""
    return paths.lake_dir() / _STATE


def keep(server: Server) -> Server:
    """Store the server, so that others find it."""
    paths.write_note(_STATE, asdict(server))
    return server


def answers(host: str, port: int) -> bool:
    """Whether something accepts connections at this address."""
    try:
        with socket.create_connection((host, port), timeout=5):
            return True
    except OSError:
        return False


def spark_home() -> str:
    """The folder of the installed PySpark, with its jars and commands."""
    # Importing PySpark would take half a second.
    found = find_spec("pyspark")
    assert found and found.origin
    return str(Path(found.origin).parent)


def spark_submit(
    settings: Mapping[str, str], connect_port: int, more: Iterable[str], *application: str
) -> list[str]:
    """The command that starts Spark with these settings only, and Connect on this port.

    `more` has additional settings, as key=value. `application` is a class of JAVA_SOURCES and its
    arguments.
    """
    settings = {
        **settings,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(connect_port),
        "spark.sql.catalogImplementation": "hive",
        **dict(each.split("=", 1) for each in more),
    }
    # An empty file, so that the defaults of another Spark on this machine do not apply.
    defaults = folder() / "spark-defaults.conf"
    defaults.touch()
    command = [f"{spark_home()}/bin/spark-submit", "--properties-file", str(defaults)]
    command += [part for name in settings for part in ("--conf", f"{name}={settings[name]}")]
    command += ["--class", JAVA_COMPILER, "spark-internal"]
    return [*command, "-sourcepath", str(JAVA_SOURCES), *application]


def spawn(
    command: Sequence[str], log: Path, more: Mapping[str, str], lock_file: int | None = None
) -> int:
    """Start a process that outlives this one, with more variables, such as a secret."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != PASSWORD_VARIABLE},
        "SPARK_HOME": spark_home(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
        "PYSPARK_PYTHON": sys.executable,
        "TZ": "UTC",
        **more,
    }
    with log.open("w") as output:
        return subprocess.Popen(
            command,
            env=environment,
            cwd=paths.lake_dir(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            # The inherited file descriptor keeps the lock while the process runs.
            pass_fds=[] if lock_file is None else [lock_file],
        ).pid


def wait(process: int, port: int, log: Path) -> None:
    """Wait until the process accepts connections. Raises SetupError if it does not."""
    until = time.monotonic() + _START_SECONDS
    while not answers("localhost", port):
        if not _lives(process) or time.monotonic() > until:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            causes = [line for line in lines if line.startswith("Caused by")]
            raise SetupError(
                f"The server did not start. The end of {log}:\n"
                + "\n".join([*lines[-5:], *causes[-1:]])
            )
        time.sleep(0.2)
    version = re.search(r"in metastore differs (\S+) from .* version (\S+?)\.? ", log.read_text())
    if version:
        raise SetupError(
            f"The lake's metastore, {paths.lake_dir()}/metastore, has the schema of Hive "
            f"{version[1]}, but this Spark has Hive {version[2]}. Use the Spark that created it."
        )


def _lives(process: int) -> bool:
    # An ended child of this process is a zombie until waited for.
    with suppress(ChildProcessError):
        os.waitpid(process, os.WNOHANG)
    try:
        os.kill(process, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def is_ours(process: int) -> bool:
    """Whether this process runs and, by its command line, belongs to this lake's server."""
    if not _lives(process):
        return False
    try:
        if Path("/proc/self").exists():
            command = _command_line(Path(f"/proc/{process}"))
        else:
            ps = ["ps", "-o", "command=", "-p", str(process)]
            command = subprocess.run(ps, capture_output=True, text=True, check=False).stdout
    except OSError:
        return False
    is_server = any(each in command for each in (str(JAVA_SOURCES), READY))
    return is_server and f"{paths.lake_dir()}/" in command


def _command_line(process: Path) -> str:
    # It is empty for a moment when a process starts a program. That of a zombie, which has no
    # program, stays empty.
    until = time.monotonic() + 1
    while (
        not (found := (process / "cmdline").read_text())
        and (process / "exe").exists()
        and time.monotonic() < until
    ):
        time.sleep(0.001)
    return found


def end(processes: Mapping[str, int]) -> None:
    """End the server's processes, and forget it.

    Spark ends first, because it uses the metastore until then.
    """
    for process in reversed(list(processes.values())):
        until = time.monotonic() + 20
        with suppress(ProcessLookupError):
            if is_ours(process):
                os.kill(process, signal.SIGTERM)
            while is_ours(process):
                if time.monotonic() > until:
                    os.kill(process, signal.SIGKILL)
                time.sleep(0.1)
    state_file().unlink(missing_ok=True)
