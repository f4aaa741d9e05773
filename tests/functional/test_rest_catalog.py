"""Iceberg tables in a REST catalog: the commands as people type them, and another engine.

Every test goes on with the lake that the one before has left.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests import rest_catalog
from tests.functional import test_table_formats as table_formats
from tests.project import Project
from tidemark.spark import spark_line

pytestmark = [
    pytest.mark.functional,
    pytest.mark.slow,
    pytest.mark.skipif(spark_line.name() == "3.5", reason="PySpark 3.5 has no Connect server"),
]

CURRENT, HISTORY = "iceberg.current.cur_club__people", "iceberg.history.hist_club__people"
MODELS = {
    "marts/club_names.sql": "select id, name from {{ ref('cur_club__people') }}",
    "marts/club_view.sql": """
{{ config(materialized='view') }}
select name from {{ ref('club_names') }}
""",
}
READ = """
import json, sys
from pyiceberg.catalog.rest import RestCatalog

table = RestCatalog("rest", uri=sys.argv[1]).load_table(sys.argv[2])
rows = table.scan().to_arrow().to_pylist()
print(json.dumps([[row["id"], row["name"]] for row in rows]))
"""


@dataclass
class Club:
    """A project whose tables are in a REST catalog. Its commands use a Spark that is up."""

    project: Project
    folder: Path
    uri: str
    variables: dict[str, str] = field(default_factory=dict)

    def tell(self, *arguments: str, **variables: str) -> str:
        """What a command prints; it succeeds, or the text says how it ended."""
        command = [str(Path(sys.executable).with_name(arguments[0])), *arguments[1:]]
        ended = subprocess.run(
            command,
            cwd=self.project.folder,
            env={
                **os.environ,
                "TIDEMARK_LAKE": str(self.folder / "lake"),
                "TIDEMARK_LANDING": str(self.project.landing),
                "TIDEMARK_CATALOG": "rest",
                "TIDEMARK_CATALOG_URI": self.uri,
                "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
                **self.variables,
                **variables,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        failed = f"\nexit code {ended.returncode}" if ended.returncode else ""
        return ended.stdout + ended.stderr + failed

    def run(self, *arguments: str, **variables: str) -> str:
        said = self.tell("tidemark", *arguments, **variables)
        assert "exit code" not in said, said
        return said

    def rows(self, query: str) -> list[str]:
        return self.run("sql", query, "--format", "csv").splitlines()[1:]

    def land(self, day: int, content: str) -> None:
        self.project.land(f"club/people/202401{day:02}-100000000.csv", content)

    def build_and_merge(self) -> None:
        """Start Spark, and build from the files that are there and two more, the last one late."""
        assert "Spark is up." in self.run("up")
        self.run("run")
        self.land(3, "U,1,aaa\nD,2,\nI,3,c\n")
        self.run("run")
        # Late.
        self.land(2, "U,1,aa\n")
        self.run("run")
        assert self.rows(f"select id, name from {CURRENT} order by id") == ["1,aaa", "3,c"]
        history = f"select id, name, is_current from {HISTORY} order by id, valid_from"
        expected = ["1,a,false", "1,aa,false", "1,aaa,true", "2,b,false", "3,c,true"]
        assert self.rows(history) == expected


@pytest.fixture(scope="module")
def club(
    module_project: Callable[[], Project], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Club]:
    project = module_project()
    table_formats.use_iceberg(project, deletion_vectors_from=1)
    project.add("club.people", {"id": "int", "name": "string"}, "id")
    project.tag_subject("club.people", "member")
    project.write("snapshots/club.yml", table_formats.MEMBERS)
    for name, sql in MODELS.items():
        project.write(f"models/{name}", sql)
    folder = tmp_path_factory.mktemp("rest")
    with rest_catalog.running(folder) as uri:
        made = Club(project, folder, uri)
        yield made
        made.tell("tidemark", "down")


def test_a_catalog_without_an_address_gets_a_sentence(club: Club) -> None:
    club.land(1, "I,1,a\nI,2,b\n")
    said = club.tell("tidemark", "run", TIDEMARK_CATALOG_URI="")
    assert "TIDEMARK_CATALOG_URI is not set" in said
    assert "exit code 1" in said


def test_tables_are_built_and_merged_in_the_catalog(club: Club) -> None:
    club.build_and_merge()
    assert club.rows("select name from marts.club_view order by 1") == ["aaa", "c"]
    members = "select name from iceberg.snapshots.club_members where dbt_valid_to is null"
    assert sorted(club.rows(members)) == ["aaa", "b", "c"]
    # They are where the catalog puts them.
    schemas = sorted(each.parent.parent.name for each in club.folder.glob("tables/*/*/metadata"))
    assert schemas == ["current", "history", "marts", "snapshots"]
    assert "Nothing to build" in club.run("run")


@pytest.mark.parametrize("table", [CURRENT, HISTORY])
def test_pyiceberg_reads_them_from_the_catalog(
    club: Club, tmp_path_factory: pytest.TempPathFactory, table: str
) -> None:
    packages = table_formats.reader("pyiceberg", tmp_path_factory)
    expected = club.rows(f"select id, name from {table} order by 1, 2")
    assert expected
    found = table_formats.read_by(packages, READ, club.uri, table.partition(".")[2])
    assert [f"{id},{name}" for id, name in found] == expected


def test_a_full_refresh_and_docs_know_the_tables(club: Club) -> None:
    before = club.rows(f"select id, name from {HISTORY} order by 1, 2")
    said = club.tell("dbt", "build", "--full-refresh", "--select", "cur_club__people+")
    assert "Completed successfully" in said, said
    assert club.rows(f"select id, name from {HISTORY} order by 1, 2") == before
    assert "exit code" not in club.tell("dbt", "docs", "generate")
    catalog = json.loads((club.project.folder / "target" / "catalog.json").read_text())
    (columns,) = [
        list(node["columns"]) for name, node in catalog["nodes"].items() if "club_names" in name
    ]
    assert columns == ["id", "name"]


def test_a_table_goes_back_to_a_run(club: Club) -> None:
    club.land(4, "U,3,cc\n")
    club.run("run", TIDEMARK_RUN_ID="before")
    club.land(5, "U,3,ccc\n")
    club.run("run")
    club.run("restore", "cur_club__people", "--to", "before")
    assert club.rows(f"select name from {CURRENT} where id = 3") == ["cc"]
    club.run("run")
    assert club.rows(f"select name from {CURRENT} where id = 3") == ["ccc"]


def test_maintain_expires_old_snapshots(club: Club) -> None:
    said = club.run("maintain", "cur_club__people", "--vacuum-after", "1 second", "--force")
    assert f"{CURRENT} " in said
    assert club.rows(f"select count(*) from {CURRENT}.snapshots") == ["1"]
    assert "Maintained 0 of 1 table" in club.run("maintain", "cur_club__people")
    said = club.run("maintain", "cur_club__people", "--dry-run")
    assert said == "1 table: only Spark can tell, without --dry-run.\n"


def test_an_erasure_leaves_nothing(club: Club) -> None:
    club.land(6, "I,7,Zebulon\nI,8,Zoe\n")
    club.run("run")
    club.land(7, "U,7,Zebulonia\n")
    club.run("run")
    tables = [club.folder / "tables" / name for name in (
        "current/cur_club__people", "history/hist_club__people", "snapshots/club_members",
    )]  # fmt: skip
    data = tables[0] / "data"
    written = max(data.glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    written.with_name("of-no-snapshot.parquet").write_bytes(written.read_bytes())
    assert all(table_formats.values(table, "Zebulon") for table in tables)
    club.run("erase", "member", "--key", "7")
    assert not any(table_formats.values(table, "Zebulon") for table in tables)
    assert club.rows(f"select id from {CURRENT} order by id") == ["1", "3", "8"]


def test_a_lake_knows_its_catalog(club: Club) -> None:
    """Otherwise a command of a shell without the variables would begin each snapshot anew."""
    for command in (("tidemark", "run"), ("dbt", "build")):
        said = club.tell(*command, TIDEMARK_CATALOG="")
        assert "exit code" in said
        assert f"The Iceberg tables of this lake are in the REST catalog {club.uri}, but" in said
        assert "name the metastore" in said
        assert "Traceback" not in said
    assert "TIDEMARK_CATALOG is 'Rest'" in club.tell("dbt", "build", TIDEMARK_CATALOG="Rest")


def test_tables_of_the_metastore_move(club: Club, tmp_path: Path) -> None:
    club.run("down")
    club.land(8, "U,8,Zoey\n")
    with rest_catalog.running(tmp_path) as uri:
        variables = {"TIDEMARK_LAKE": str(tmp_path / "lake"), "TIDEMARK_CATALOG_URI": uri}
        club.run("run", **variables | {"TIDEMARK_CATALOG": ""})
        club.land(9, "U,8,Zoya\n")
        said = club.tell("tidemark", "run", **variables)
        assert "Iceberg tables of this lake are in the metastore, but" in said
        assert "add the tables to the new catalog: tidemark register" in said
        moved = club.run("register", **variables)
        for table in (CURRENT, HISTORY, "iceberg.snapshots.club_members"):
            assert f"{table} is registered" in moved
        club.run("run", **variables)
        members = "select name from iceberg.snapshots.club_members where id = 8"
        told = club.run("sql", f"{members} order by dbt_valid_from", "--format", "csv", **variables)
        assert told.splitlines() == ["name", "Zoey", "Zoya"]
        query = f"select name from {HISTORY} where id = 8 order by valid_from"
        told = club.run("sql", query, "--format", "csv", **variables)
        assert told.splitlines() == ["name", "Zoey", "Zoya"]


class _Recorder(BaseHTTPRequestHandler):
    """A catalog without schemas, which keeps what it is asked."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(f"{self.path} {self.headers['Authorization']}")
        empty: dict[str, Any] = {"defaults": {}, "overrides": {}, "namespaces": []}
        self._answer(empty)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append(f"{self.path} {body}")
        self._answer({"access_token": "token-of-test", "token_type": "bearer", "expires_in": 3600})

    def _answer(self, told: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(told).encode())


def test_the_credential_comes_from_the_environment(club: Club, tmp_path: Path) -> None:
    club.run("down")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Recorder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = club.run(
            *("sql", "show schemas in iceberg"),
            TIDEMARK_LAKE=str(tmp_path / "lake"),
            TIDEMARK_CATALOG_URI=f"http://127.0.0.1:{server.server_port}",
            TIDEMARK_CATALOG_WAREHOUSE="west",
            TIDEMARK_CATALOG_CREDENTIAL="me:only-for-tests",
        )
        server.shutdown()
    asked = "\n".join(_Recorder.asked)
    assert "client_id=me&client_secret=only-for-tests" in asked
    assert "/v1/config?warehouse=west" in asked
    assert "/v1/namespaces" in asked
    assert "Bearer token-of-test" in asked
    assert "only-for-tests" not in said
    for file in (tmp_path / "lake").rglob("*"):
        assert not file.is_file() or b"only-for-tests" not in file.read_bytes(), file


def test_a_catalog_that_does_not_answer_gets_a_sentence(club: Club, tmp_path: Path) -> None:
    club.land(10, "U,8,Zo\n")
    lake = {"TIDEMARK_LAKE": str(tmp_path / "lake")}
    said = club.tell("tidemark", "run", TIDEMARK_CATALOG_URI="http://127.0.0.1:9", **lake)
    assert "exit code 1" in said
    assert "The REST catalog at http://127.0.0.1:9 does not respond" in said
