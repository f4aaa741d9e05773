"""A MariaDB server for tests: its own files, a free port on loopback, ended with the test."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.free_port import free_port

# The user of Debezium, and what it may do.
USER = "debezium"
PASSWORD = "only-for-tests"
GRANTS = ["select", "reload", "show databases", "replication slave", "replication client"]
# As a replicated database would be set up. Nothing needs to survive a crash of the machine.
SETTINGS = {
    "log-bin": "binlog",
    "server-id": "1",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "gtid-strict-mode": "ON",
    "bind-address": "127.0.0.1",
    "character-set-server": "utf8mb4",
    # Not UTC, so that a time that is shifted shows.
    "default-time-zone": "+05:30",
    "sync-binlog": "0",
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-flush-method": "nosync",
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "32M",
    "performance-schema": "OFF",
    "skip-name-resolve": "ON",
}


def program() -> str | None:
    """The server's program, or None if it is not installed."""
    return shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def require() -> None:
    """Skip the test if MariaDB is not installed."""
    if program() is None:
        pytest.skip("MariaDB is not installed")


@dataclass(frozen=True)
class MariaDB:
    """A running server, with the user `root`."""

    socket: Path
    port: int

    def client(self) -> list[str]:
        """The command line of a client that reads statements and stops at an error."""
        options = ["--no-defaults", "--batch", "--raw", "--skip-column-names", "--binary-mode"]
        place = [f"--socket={self.socket}", "--user=root"]
        return ["mariadb", *options, *place, "--default-character-set=utf8mb4"]

    def sql(self, statements: str) -> str:
        """Run statements, each in a transaction of its own unless they say otherwise."""
        answer = subprocess.run(
            self.client(), input=statements.encode(), capture_output=True, check=False
        )
        if answer.returncode:
            raise RuntimeError(f"MariaDB refused: {answer.stderr.decode()}")
        return answer.stdout.decode().strip("\n")


@contextmanager
def running(**settings: str) -> Iterator[MariaDB]:
    """A server, for as long as the context lasts."""
    found = program()
    if found is None:
        raise RuntimeError("MariaDB is not installed")
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="tidemark-maria-", dir="/tmp"))
    # MariaDB does not run as root unless it is told to.
    user = [] if os.geteuid() else [f"--user={_user(folder)}"]
    try:
        _install(folder, user)
        place = {"datadir": str(folder / "data"), "port": str(port), "socket": str(folder / "sock")}
        command = [found, "--no-defaults", *user]
        command += [
            f"--{name.replace('_', '-')}={value}"
            for name, value in {**SETTINGS, **place, **settings}.items()
        ]
        with (
            (folder / "log").open("w") as log,
            subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as process,
        ):
            server = MariaDB(folder / "sock", port)
            try:
                _wait(server, process, folder / "log")
                server.sql(f"create user {USER}@'127.0.0.1' identified by '{PASSWORD}'")
                server.sql(f"grant {', '.join(GRANTS)} on *.* to {USER}@'127.0.0.1'")
                yield server
            finally:
                # Its files are of no use afterwards.
                process.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _user(folder: Path) -> str:
    for name in ("mysql", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        shutil.chown(folder, user.pw_uid, user.pw_gid)
        return name
    raise RuntimeError("neither the user mysql nor nobody exists")


def _install(folder: Path, user: list[str]) -> None:
    command = ["mariadb-install-db", "--no-defaults", *user, f"--datadir={folder / 'data'}"]
    command += ["--auth-root-authentication-method=normal", "--skip-test-db"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if answer.returncode:
        raise RuntimeError(f"mariadb-install-db failed: {answer.stdout}{answer.stderr}")


def _wait(server: MariaDB, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        try:
            server.sql("select 1")
            return
        except RuntimeError:
            time.sleep(0.05)
    raise RuntimeError(f"MariaDB did not start: {log.read_text()[-2000:]}")
