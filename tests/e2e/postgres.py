"""A PostgreSQL cluster for tests: its own files, a free port on loopback, ended with the test."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.free_port import free_port

PASSWORD = "only-for-tests"
# As a replicated database would be set up. Nothing needs to survive a crash of the machine.
SETTINGS = {
    "wal_level": "logical",
    "track_commit_timestamp": "on",
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "timezone": "UTC",
}


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, or None if it is not installed."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda it: int(it.parent.name))
    return next((folder for folder in reversed(debian) if (folder / "postgres").exists()), None)


def require() -> None:
    """Skip the test if PostgreSQL is not installed. In CI that is a failure."""
    if programs() is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have postgresql: see .ci/run")
        pytest.skip("PostgreSQL is not installed")


@dataclass(frozen=True)
class Postgres:
    """A running cluster, with the superuser `postgres`."""

    programs: Path
    sockets: Path
    port: int

    def client(self, program: str, *arguments: str) -> list[str]:
        """The command line of one of PostgreSQL's clients."""
        place = ["-h", str(self.sockets), "-p", str(self.port), "-U", "postgres"]
        return [str(self.programs / program), *place, *arguments]

    def psql(self, *arguments: str) -> list[str]:
        """The command line of psql, without headers, that stops at an error."""
        options = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        return self.client("psql", *options, *arguments, "postgres")

    def sql(self, statements: str) -> str:
        """Run statements, in one transaction unless they say otherwise; gives the output."""
        answer = subprocess.run(
            self.psql("-f", "-"), input=statements, capture_output=True, text=True, check=False
        )
        if answer.returncode:
            raise RuntimeError(f"PostgreSQL refused: {answer.stderr}")
        return answer.stdout.strip("\n")

    @contextmanager
    def open_transaction(self) -> Iterator[None]:
        """Someone's transaction stays open. Until it ends, slots keep the log from here on."""
        with subprocess.Popen(
            self.psql("-f", "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as client:
            assert client.stdin and client.stdout
            client.stdin.write(b"begin; select pg_logical_emit_message(true, 'open', '');\n")
            client.stdin.flush()
            assert client.stdout.readline()
            yield

    def set_clock(self, ahead: str) -> None:
        """Set the server's clock ahead of ours, such as +1h or -1h, from now on."""
        new = self.sockets / "clock.new"
        new.write_text(ahead)
        new.rename(self.sockets / "clock")


@contextmanager
def running(*, has_clock: bool = False) -> Iterator[Postgres]:
    """A cluster, for as long as the context lasts.

    With `has_clock`, its clock can be set (`Postgres.set_clock`), which needs Debian's `faketime`.
    """
    found = programs()
    if found is None:
        raise RuntimeError("PostgreSQL is not installed")
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="tidemark-pg-", dir="/tmp"))
    user = _user()
    if user:
        shutil.chown(folder, user.pw_uid, user.pw_gid)
    try:
        _as_user(user, [str(found / "initdb"), "-D", str(folder / "data"), *_INITDB], folder)
        settings = {**SETTINGS, "port": str(port), "unix_socket_directories": str(folder)}
        command = [str(found / "postgres"), "-D", str(folder / "data")]
        command += [f"--{name}={value}" for name, value in settings.items()]
        with (
            (folder / "log").open("w") as log,
            subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env={**os.environ, **(_clock_in(folder) if has_clock else {})},
                **_identity(user),
            ) as server,
        ):
            cluster = Postgres(found, folder, port)
            try:
                _wait(cluster, server, folder / "log")
                cluster.sql(f"alter role postgres password '{PASSWORD}'")
                yield cluster
            finally:
                # SIGQUIT: no checkpoint, clients are cut off.
                server.send_signal(3)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _clock_in(folder: Path) -> dict[str, str]:
    """The environment in which a process has the clock that a file in this folder sets."""
    library = faketime()
    assert library
    (folder / "clock").write_text("+0")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(folder / "clock"),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DISABLE_SHM": "1",
    }


def faketime() -> Path | None:
    """The library that sets a process's clock, or None if it is not installed."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


_INITDB = ["-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-N"]
_INITDB += ["--auth-local=trust", "--auth-host=scram-sha-256"]


def _user() -> pwd.struct_passwd | None:
    """The user to run the server as. None: this one. PostgreSQL refuses to run as root."""
    if os.geteuid():
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("neither the user postgres nor nobody exists")


def _identity(user: pwd.struct_passwd | None) -> dict[str, Any]:
    """Arguments of Popen."""
    if user is None:
        return {"cwd": "/tmp"}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/tmp"}


def _as_user(user: pwd.struct_passwd | None, command: Sequence[str], folder: Path) -> None:
    answer = subprocess.run(command, capture_output=True, text=True, check=False, **_identity(user))
    if answer.returncode:
        raise RuntimeError(f"initdb failed in {folder}: {answer.stdout}{answer.stderr}")


def _wait(cluster: Postgres, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until and server.poll() is None:
        ready = subprocess.run(cluster.client("pg_isready", "-q"), check=False).returncode == 0
        if ready:
            return
        time.sleep(0.05)
    raise RuntimeError(f"PostgreSQL did not start: {log.read_text()[-2000:]}")
