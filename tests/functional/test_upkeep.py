"""`keep_changes`, `erase` and the runbooks of docs/operate.md on other targets than embedded Spark.

A warehouse on S3, and a Thrift server, used as people do: by commands.
"""

import json
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import s3_server, thrift_server
from tests.functional.test_erase import SECRET, texts
from tests.functional.test_retention import OLD, recent
from tests.functional.test_s3_warehouse import on_s3, python
from tests.project import Project
from tests.thrift_server import ThriftServer

pytestmark = [pytest.mark.functional, pytest.mark.slow]

COLUMNS = {"id": "int", "name": "string", "seq": "bigint"}
# Everything but what differs from run to run.
TABLES = {
    "log_far.t": "_op, _file, _position, id, name, seq",
    "current.cur_far__t": "id, name, seq",
    "history.hist_far__t": "id, name, seq, version_key, version_number, is_current",
    "marts.far_count": "*",
}


class Lake(ABC):
    """A project with its lake, and the commands on it."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project, self.folder = project, folder

    @abstractmethod
    def command(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `dbt` or `tidemark` in the project's folder."""

    @abstractmethod
    def land(self, path: str, *lines: str) -> None:
        """A file arrives."""

    @abstractmethod
    def lose(self, relation: str) -> None:
        """Delete the files of a table."""

    @abstractmethod
    def lose_metastore(self) -> None:
        """Delete the metastore."""

    @abstractmethod
    def lose_warehouse(self) -> None:
        """Delete the files of all tables, and the lake, as the runbook says."""

    @abstractmethod
    def files(self, folder: Path) -> Iterator[Path]:
        """All files of the lake and of the landing folder; what is elsewhere comes to `folder`."""

    def told(self, program: str, *arguments: str, code: int = 0) -> str:
        """What a command prints that must end with this exit code."""
        done = self.command(program, *arguments)
        told = f"{done.stdout}{done.stderr or ''}"
        assert done.returncode == code, told
        assert "Traceback" not in told, told
        return told

    def tidemark(self, *arguments: str, code: int = 0) -> str:
        return self.told("tidemark", *arguments, code=code)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        printed = self.command("tidemark", "sql", query, "--format", "json").stdout
        lines = [line for line in printed.splitlines() if line.startswith("{")]
        return [tuple(json.loads(line).values()) for line in lines]

    def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of the tables of `far.t`."""
        return {
            table: self.rows(f"select {columns} from {table} order by all")
            for table, columns in TABLES.items()
        }


class OnS3(Lake):
    """Files and tables on S3, and a warm Spark."""

    def __init__(self, project: Project, folder: Path, server: s3_server.S3Server) -> None:
        super().__init__(project, folder)
        self.server = server
        self.tidemark("up")

    def command(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        script = str(Path(sys.executable).with_name(program))
        variables = on_s3(self.server, self.folder)
        return python(variables, script, *arguments, project=self.project.folder)

    def land(self, path: str, *lines: str) -> None:
        content = "".join(f"{line}\n" for line in lines)
        self.server.put(f"lake/{self.folder.name}/landing/{path}", content)

    def lose(self, relation: str) -> None:
        place = f"lake/{self.folder.name}/tables/{relation.replace('.', '.db/')}"
        self.server.delete_below(place)

    def lose_metastore(self) -> None:
        self.tidemark("down")
        shutil.rmtree(self.folder / "metastore")
        self.tidemark("up")

    def lose_warehouse(self) -> None:
        self.tidemark("down")
        self.server.delete_below(f"lake/{self.folder.name}/tables")
        shutil.rmtree(self.folder)

    def files(self, folder: Path) -> Iterator[Path]:
        self.server.copy(f"lake/{self.folder.name}", folder)
        for root in (folder, self.folder):
            yield from (file for file in root.rglob("*") if file.is_file())


class OnThrift(Lake):
    """A Thrift server of Tidemark's own."""

    def __init__(self, project: Project, server: ThriftServer) -> None:
        super().__init__(project, server.lake)
        self.server = server

    def command(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        target = ("--target", "thrift")
        return self.server.command(program, *arguments, *target, project=self.project)

    def land(self, path: str, *lines: str) -> None:
        self.project.land(path, "".join(f"{line}\n" for line in lines))

    def lose(self, relation: str) -> None:
        shutil.rmtree(self.folder / "warehouse" / relation.replace(".", ".db/"))

    def lose_metastore(self) -> None:
        assert self.server.command("tidemark", "thrift", "stop").returncode == 0
        shutil.rmtree(self.folder / "metastore")
        assert self.server.start().returncode == 0

    def lose_warehouse(self) -> None:
        assert self.server.command("tidemark", "thrift", "stop").returncode == 0
        shutil.rmtree(self.folder)
        assert self.server.start().returncode == 0

    def files(self, folder: Path) -> Iterator[Path]:
        for root in (self.project.landing, self.folder):
            yield from (file for file in root.rglob("*") if file.is_file())


@pytest.fixture(scope="module", params=["s3", "thrift"])
def lake(
    request: pytest.FixtureRequest,
    module_project: Callable[[], Project],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lake]:
    project = module_project()
    project.add("far.t", COLUMNS, "id", sequence="seq")
    mart = "select count(*) as n, max(seq) as seq from {{ ref('cur_far__t') }}"
    project.write("models/marts/far/far_count.sql", mart)
    kept = {"sequence": "seq", "timestamp_column": "ts", "keep_changes": "400 days"}
    project.add("far.kept", COLUMNS, "id", **kept)
    project.tag_subject("far.kept", "person")
    # dbt keeps the rows that fail it.
    project.write(
        "tests/kept_have_no_name.sql",
        "{{ config(store_failures=true, severity='warn') }} "
        "select id, name from {{ ref('cur_far__kept') }} where name is not null",
    )
    folder = tmp_path_factory.mktemp("far") / "lake"
    if request.param == "thrift":
        with thrift_server.running(folder) as server:
            yield OnThrift(project, server)
        return
    with s3_server.running() as server_of_s3:
        server_of_s3.put("lake/other/x", "")
        found = OnS3(project, folder, server_of_s3)
        yield found
        found.command("tidemark", "down")


def secrets(lake: Lake, folder: Path) -> set[str]:
    files = lake.files(folder)
    return {str(file) for file in files if any(SECRET.search(text) for text in texts(file))}


def test_a_log_is_cut_and_a_person_is_erased(lake: Lake, tmp_path: Path) -> None:
    path = "far/kept/20240101-{:09d}.csv"
    lake.land(
        path.format(1),
        *(f"I,{OLD[0]},{key},{name} a,1" for key, name in ((1, "Zebulon"), (2, "Bob"))),
        *(f"U,{OLD[1]},{key},{name} b,2" for key, name in ((1, "Zebulon"), (2, "Bob"))),
    )
    lake.land(path.format(2), f"U,{recent(20)},1,Zebulon c,4", f"U,{recent(20)},2,Bob c,4")
    assert "Landed 6 rows from 2 files." in lake.tidemark("run")
    versions = "select id, name, version_number from history.hist_far__kept order by id, 3"
    before = lake.rows(versions)
    assert [name for _, name, _ in before if "Bob" in name] == ["Bob a", "Bob b", "Bob c"]
    assert "Cut the log of far.kept: deleted 2 changes" in lake.tidemark("maintain", "far.kept")
    assert lake.rows("select count(*) from log_far.kept") == [(4,)]

    lake.land(path.format(3), f"U,{recent(10)},2,less,2", f"U,{recent(30)},2,Bob d,3")
    told = lake.tidemark("run")
    assert "Landed 1 row from 1 file. 1 row went to tidemark.dead_letter." in told
    expected = [*before[:5], (2, "Bob d", 3), (2, "Bob c", 4)]
    assert lake.rows(versions) == expected
    lake.told("dbt", "build", "--full-refresh", "--select", "hist_far__kept")
    assert lake.rows(versions) == expected

    assert secrets(lake, tmp_path / "before")
    told = lake.tidemark("erase", "person", "--key", "1")
    assert "Deleted 2 landed files." in told
    assert "Left for you to check" not in told
    assert lake.rows(versions) == expected[3:]
    assert lake.rows("select id from dbt_test__audit.kept_have_no_name") == [(2,)]
    assert secrets(lake, tmp_path / "after") == set()
    assert "Nothing to build" in lake.tidemark("run")
    # What comes later.
    lake.land(path.format(4), f"U,{recent(5)},1,Zebulon d,9", f"U,{recent(5)},2,Bob e,9")
    told = lake.tidemark("run")
    assert "1 records of erased subjects did not land" in told
    assert lake.rows(versions) == [*expected[3:], (2, "Bob e", 5)]


def test_the_runbooks(lake: Lake) -> None:
    lake.land("far/t/20240101-000000001.csv", "I,1,a,1", "I,2,b,1")
    lake.land("far/t/20240101-000000002.csv", "U,1,aa,2", "D,2,,2", "I,3,c,2")
    lake.tidemark("run")
    expected = lake.contents()
    assert all(expected.values())

    # One table.
    lake.lose("current.cur_far__t")
    told = lake.tidemark("run", "--all", code=1)
    assert "its files are gone. Runbooks: docs/operate.md" in told
    lake.told("dbt", "build", "--full-refresh", "--select", "cur_far__t")
    assert lake.contents() == expected

    # A change log.
    lake.lose("log_far.t")
    lake.tidemark("sql", "drop table log_far.t")
    lake.tidemark("replay", "--all", "far.t")
    assert lake.contents() == expected
    assert "Nothing to build" in lake.tidemark("run")

    # The ledger, and what was built.
    lake.lose("tidemark.ledger")
    for name in ("ledger", "builds"):
        lake.tidemark("sql", f"drop table tidemark.{name}")
    lake.tidemark("run")
    assert lake.contents() == expected
    assert "Nothing to build" in lake.tidemark("run")

    # The metastore.
    lake.lose_metastore()
    lake.tidemark("register")
    lake.tidemark("run", "--all")
    assert lake.contents() == expected
    assert "Nothing to build" in lake.tidemark("run")

    # All tables.
    lake.lose_warehouse()
    lake.tidemark("run")
    assert lake.contents() == expected
