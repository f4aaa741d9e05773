"""A lake without Delta tables: other modules' tests, in a process with TIDEMARK_FORMAT=iceberg."""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.conftest import LAKE
from tests.project import REPO, Project
from tidemark import targets
from tidemark.ingest import books

_MORE = [
    f"tests/functional/test_{name}.py"
    for name in ("convergence", "scenarios", "landings", "full_loads", "erase", "several_feeds")
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
    command = [sys.executable, "-m", "pytest", "-q", "-m", marks, *tests, __file__]
    environment = os.environ | {"TIDEMARK_FORMAT": "iceberg", "TIDEMARK_CASES": "10"}
    ended = subprocess.run(
        command, cwd=REPO, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-5000:]


@pytest.mark.skipif(not _IS_INNER, reason="a lake with Delta tables")
def test_no_table_is_one_of_delta(project: Project) -> None:
    project.land("last/t/LOAD00000001.csv", "1,a\n")
    project.add("last.t", {"id": "bigint", "name": "string"}, "id")
    project.build()
    assert project.rows("current.cur_last__t", ["id", "name"]) == [(1, "a")]
    assert not books.without_spark()
    assert [*LAKE.glob("warehouse/*/*/metadata")]
    assert not [*LAKE.rglob("_delta_log")]
