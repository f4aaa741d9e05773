"""A lake without Delta tables: other modules' tests, in a process with TIDEMARK_FORMAT=iceberg."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from tests.conftest import LAKE
from tests.project import REPO, Project
from tests.thrift_server import running
from tidemark import targets
from tidemark.formats import iceberg
from tidemark.ingest import books
from tidemark.spark import lease, spark_line

_MORE = [
    f"tests/functional/test_{name}.py"
    for name in (
        *("convergence", "scenarios", "landings", "full_loads", "erase", "several_feeds"),
        "retention",
    )
]
_IS_INNER = targets.lake_format() != "delta"


@pytest.mark.skipif(_IS_INNER, reason="runs itself")
@pytest.mark.parametrize(
    ("tests", "marks"),
    [
        ([], "not slow"),
        pytest.param(_MORE, "not slow", marks=pytest.mark.slow),
        pytest.param(["tests/functional/test_verify.py"], "slow", marks=pytest.mark.slow),
    ],
    ids=["one", "more", "verify"],
)
def test_a_lake_of_iceberg_passes(tests: Sequence[str], marks: str) -> None:
    command = [sys.executable, "-m", "pytest", "-m", marks, *tests, __file__]
    environment = os.environ | {"TIDEMARK_FORMAT": "iceberg", "TIDEMARK_CASES": "10"}
    ended = subprocess.run(
        command, cwd=REPO, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-5000:]
    assert re.search(r"\b\d+ passed", ended.stdout), ended.stdout


@pytest.mark.skipif(not _IS_INNER, reason="a lake with Delta tables")
def test_no_table_is_one_of_delta(project: Project) -> None:
    project.land("last/t/LOAD00000001.csv", "1,a\n")
    project.add("last.t", {"id": "bigint", "name": "string"}, "id")
    project.build()
    assert project.rows("current.cur_last__t", ["id", "name"]) == [(1, "a")]
    assert not books.without_spark()
    assert [*LAKE.glob("warehouse/*/*/metadata")]
    assert not [*LAKE.rglob("_delta_log")]


@pytest.mark.skipif(not _IS_INNER, reason="a lake with Delta tables")
def test_old_leases_are_deleted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = project.spark
    for holder in ("first", "second", "third"):
        lease._acquire(spark, holder)
        lease._take(spark, holder, seconds=0)
    assert project.commits(lease.TABLE) > 3
    monkeypatch.setattr(lease, "_TIDY_EACH", 1)
    monkeypatch.setattr(iceberg, "SAFE", timedelta(0))
    lease._tidy(spark)
    assert project.commits(lease.TABLE) == 1


@pytest.mark.slow
@pytest.mark.skipif(not _IS_INNER, reason="a lake with Delta tables")
def test_the_classes_of_such_a_lake_can_be_archived(tmp_path: Path) -> None:
    lake = {"TIDEMARK_LAKE": f"{tmp_path}/lake", "TIDEMARK_LANDING": f"{tmp_path}/landing"}
    train = [sys.executable, "-m", "tidemark.spark.class_archive"]
    done = subprocess.run(
        train, env=os.environ | lake, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.skipif(not _IS_INNER, reason="a lake with Delta tables")
@pytest.mark.skipif(spark_line.name() == "3.5", reason="PySpark 3.5 has no Spark Connect server")
def test_a_thrift_server_has_such_a_lake(project: Project, tmp_path: Path) -> None:
    project.add("server.people", {"id": "int", "name": "string"}, "id")
    project.write(
        "snapshots/server.yml",
        """
snapshots:
  - name: server_people
    relation: ref('cur_server__people')
    config: {strategy: check, unique_key: id, check_cols: all, schema: snapshots}
""",
    )
    history = "select id, name, is_current from history.hist_server__people"
    snapshot = "select id, name, dbt_valid_to is null from snapshots.server_people"
    with running(tmp_path / "lake") as server:
        for day, content in enumerate(("I,1,a\nI,2,b\n", "U,1,aa\nD,2,\n"), 1):
            project.land(f"server/people/2024010{day}-100000000.csv", content)
            server.dbt(project, "build", "--threads", "4")
        expected = [(1, "a", False), (1, "aa", True), (2, "b", False)]
        assert sorted(server.rows(history)) == expected
        assert sorted(server.rows(snapshot))[:2] == expected[:2]
        assert server.rows("select id, name from current.cur_server__people") == [(1, "aa")]
        assert "4 models built" in server.tidemark(project, "run")
        assert "Nothing to build" in server.tidemark(project, "run")
    assert [*tmp_path.glob("lake/warehouse/log_server.db/people/metadata")]
    assert not [*tmp_path.rglob("_delta_log")]
