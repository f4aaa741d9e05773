"""A table that was derived by something else is not written to: its rows would not fit."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.project import Project

pytestmark = pytest.mark.functional

COLUMNS = {"id": "int", "part": "int", "name": "string", "seq": "int"}
FEED = {"sequence": "seq", "timestamp_column": "ts"}
YAML = "models/staging/drift/_drift__sources.yml"
DRIFTED = ("keys", "clock", "narrow", "sparse", "tracked")


def declare(project: Project) -> None:
    for table in (*DRIFTED, "wider"):
        project.add(f"drift.{table}", COLUMNS, "id", **FEED)
        project.land(f"drift/{table}/20240101-000000000.csv", "I,2024-01-01 00:00:01,1,1,a,1\n")


def edit(project: Project, path: str, table: str, before: str, after: str) -> None:
    """Replace the first `before` that stands behind the table's name."""
    file = project.folder / path
    head, name, rest = file.read_text().partition(f"name: {table}\n")
    assert before in rest, (path, table, before)
    file.write_text(head + name + rest.replace(before, after, 1))


def typed(name: str, data_type: str) -> str:
    return f"name: {name}\n            description: ''\n            data_type: {data_type}"


@pytest.fixture(scope="module")
def drifted(module_project: Callable[[], Project]) -> tuple[Project, dict[str, str]]:
    """Built once; then each table's declaration changes in its own way, and more rows land."""
    project = module_project()
    declare(project)
    project.build()
    edit(project, YAML, "keys", "key: id", "key: [id, part]")
    edit(project, YAML, "clock", typed("seq", "int"), typed("seq", "bigint"))
    edit(project, YAML, "narrow", "key: id", "key: id\n              exclude_columns: name")
    edit(project, YAML, "sparse", "key: id", "key: id\n              ignore_null_updates: [name]")
    # What is no drift: a key of a wider type, and a new column.
    edit(project, YAML, "wider", typed("id", "int"), typed("id", "bigint"))
    edit(project, YAML, "wider", "- name: seq", "- name: extra\n          - name: seq")
    current = project.folder / "models/current/drift/cur_drift__keys.sql"
    current.write_text(current.read_text().replace("['id']", "['id', 'part']"))
    history = "models/history/drift/hist_drift__tracked.sql"
    file = project.folder / history
    file.write_text(file.read_text().replace("),\n)", "),\n    tracked=['name'],\n)"))
    for table in (*DRIFTED, "wider"):
        extra = "x," if table == "wider" else ""
        line = f"U,2024-01-02 00:00:01,1,1,b,{extra}2\n"
        project.land(f"drift/{table}/20240102-000000000.csv", line)
    result = project.dbt("build")
    said = {item.node.name: item.message or "" for item in result.result if item.status == "error"}
    return project, said


TABLES = [
    ("cur_drift__keys", "key was id integer and is now id integer, part integer"),
    ("hist_drift__keys", "key was id integer and is now id integer, part integer"),
    ("hist_drift__clock", "sequence was seq int and is now seq bigint"),
    ("cur_drift__narrow", "columns left out was not set and is now name"),
    ("hist_drift__sparse", "partial rows was not set and is now name if name is null"),
    ("hist_drift__tracked", "tracked columns was all and is now name"),
]


@pytest.mark.parametrize(("model", "message"), TABLES, ids=[model for model, _ in TABLES])
def test_drift_is_refused_before_writing(
    drifted: tuple[Project, dict[str, str]], model: str, message: str
) -> None:
    project, said = drifted
    assert message in said[model]
    assert f"dbt build --full-refresh --select {model}" in said[model]
    assert project.commits(f"{_schema(model)}.{model}") == 1


def _schema(model: str) -> str:
    return "current" if model.startswith("cur") else "history"


def test_what_fits_is_no_drift(drifted: tuple[Project, dict[str, str]]) -> None:
    project, said = drifted
    assert not {name for name in said if name.endswith("wider") or name == "cur_drift__tracked"}
    columns = ["id", "name", "extra", "version_number"]
    rows = project.rows("history.hist_drift__wider", columns, "valid_from")
    assert rows == [(1, "a", None, 1), (1, "b", "x", 2)]


def test_a_full_refresh_derives_the_table_anew_with_the_same_keys(
    drifted: tuple[Project, dict[str, str]],
) -> None:
    project, _ = drifted

    def first_key() -> Any:
        table = "history.hist_drift__tracked"
        return project.rows(table, ["version_key"], "valid_from")[0]

    before = first_key()
    models = ["cur_drift__keys", "hist_drift__keys", "hist_drift__tracked"]
    project.build("--full-refresh", "--select", *models)
    assert first_key() == before
    assert project.rows("current.cur_drift__keys", ["id", "part", "name"]) == [(1, 1, "b")]
    # And goes on from there.
    project.land("drift/tracked/20240103-000000000.csv", "U,2024-01-03 00:00:01,1,1,b,3\n")
    project.build("--select", "hist_drift__tracked")
    assert len(project.rows("history.hist_drift__tracked", ["version_key"])) == 2
