"""A Thrift server with Spark Connect for tests, started and used as people do: by commands."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyhive.hive import Connection

from tests.free_port import free_port
from tests.project import REPO
from tidemark.spark.processes import PASSWORD_VARIABLE
from tidemark.spark.server import Ports

PASSWORD = "open $esame's 'door'"


class Folders(Protocol):
    """A dbt project: its folder, and that where its files arrive."""

    @property
    def folder(self) -> Path: ...
    @property
    def landing(self) -> Path: ...


@dataclass(frozen=True)
class ThriftServer:
    """A running server over a lake of its own."""

    lake: Path
    ports: Ports

    @property
    def environment(self) -> dict[str, str]:
        """What its users set."""
        return {
            **os.environ,
            "TIDEMARK_LAKE": str(self.lake),
            "TIDEMARK_THRIFT_PORT": str(self.ports.thrift),
            "TIDEMARK_CONNECT": f"sc://localhost:{self.ports.connect}",
            PASSWORD_VARIABLE: PASSWORD,
            "TIDEMARK_LEASE_SECONDS": "60",
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            "PYTHONPATH": f"{REPO}/python",
        }

    def start(self, *more: str) -> subprocess.CompletedProcess[str]:
        """`tidemark thrift start`."""
        ports = ["--port", self.ports.thrift, "--connect-port", self.ports.connect]
        ports += ["--metastore-port", self.ports.metastore]
        return self.command("tidemark", "thrift", "start", *map(str, ports), *more)

    def begin(
        self, program: str, *arguments: str, project: Folders | None = None, **variables: str
    ) -> subprocess.Popen[str]:
        """Start `dbt` or `tidemark` in a project's folder."""
        environment = self.environment | variables
        if project:
            environment["TIDEMARK_LANDING"] = str(project.landing)
        return subprocess.Popen(
            [Path(sys.executable).with_name(program), *arguments],
            cwd=project.folder if project else REPO,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def command(
        self, program: str, *arguments: str, project: Folders | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `dbt` or `tidemark`; its standard output has the errors, too."""
        process = self.begin(program, *arguments, project=project, **variables)
        output, _ = process.communicate(timeout=600)
        return subprocess.CompletedProcess(arguments, process.returncode, output)

    def dbt(self, project: Folders, *arguments: str, **variables: str) -> str:
        """A dbt command on the target `thrift` that must succeed; gives what it prints."""
        done = self.command("dbt", *arguments, "--target", "thrift", project=project, **variables)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def tidemark(self, project: Folders, *arguments: str, **variables: str) -> str:
        """A tidemark command on the target `thrift` that must succeed; gives what it prints."""
        done = self.command(
            "tidemark", *arguments, "--target", "thrift", project=project, **variables
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What any client of Thrift's would get."""
        with Connection(
            "localhost", self.ports.thrift, username="tidemark", password=PASSWORD, auth="CUSTOM"
        ) as connection:
            cursor = connection.cursor()
            cursor.execute(query)
            return list(cursor.fetchall())


@contextmanager
def running(lake: Path, more: Sequence[str] = ()) -> Iterator[ThriftServer]:
    """A server on free ports, for as long as the context lasts."""
    server = ThriftServer(lake, Ports(free_port(), free_port(), free_port()))
    started = server.start(*more)
    assert started.returncode == 0, started.stdout
    try:
        yield server
    finally:
        server.command("tidemark", "thrift", "stop")
