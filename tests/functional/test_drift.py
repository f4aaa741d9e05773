"""A table that was derived by something else is not written to: its rows would not fit."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.project import Project

pytestmark = pytest.mark.functional

# Spark hides the value of a property that mentions a token. The settings of a table are in one.
COLUMNS = {"id": "int", "part": "int", "name": "string", "token": "int"}
FEED = {"sequence": "token", "timestamp_column": "ts"}
YAML = "models/staging/drift/_drift__sources.yml"
DRIFTED = ("keys", "clock", "narrow", "sparse", "tracked")
# Whose columns come and go; files of `kept` still bring the one that is no longer declared.
RESHAPED = ("wider", "dropped", "kept", "renamed", "cased")
# A history's version keys cut times once: `instant` has a key below a millisecond.
TIMED = {"instant": "2024-01-01 00:00:00.000001", "exact": "2024-01-01 00:00:00.001"}
# They tell no more than the other models of their tables, and of others.
NOT_LOOKED_AT = ("cur_drift__clock", "hist_drift__narrow", "cur_drift__sparse", "cur_drift__exact")
HEADER = "Op,ts,id,part,name,token\n"


def declare(project: Project) -> None:
    for table in (*DRIFTED, *RESHAPED, "added"):
        header = {"header": "all"} if table == "kept" else {}
        project.add(f"drift.{table}", COLUMNS, "id", **FEED, **header)
        lines = (HEADER if header else "") + "I,2024-01-01 00:00:01,1,1,a,1\n"
        project.land(f"drift/{table}/20240101-000000000.csv", lines)
    for table, at in TIMED.items():
        project.add(f"drift.{table}", {"at": "timestamp", **COLUMNS}, ["id", "at"], **FEED)
        line = f"I,2024-01-01 00:00:01,{at},1,1,a,1\n"
        project.land(f"drift/{table}/20240101-000000000.csv", line)


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
    for model in NOT_LOOKED_AT:
        (file,) = project.folder.glob(f"models/*/drift/{model}.sql")
        file.unlink()
    project.build()
    _as_an_older_tidemark_built_it(project)
    edit(project, YAML, "keys", "key: id", "key: [id, part]")
    edit(project, YAML, "clock", typed("token", "int"), typed("token", "bigint"))
    edit(project, YAML, "narrow", "key: id", "key: id\n              exclude_columns: name")
    edit(project, YAML, "sparse", "key: id", "key: id\n              ignore_null_updates: [name]")
    # What is no drift: a key of a wider type, and a new column.
    edit(project, YAML, "wider", typed("id", "int"), typed("id", "bigint"))
    edit(project, YAML, "wider", "- name: token", "- name: extra\n          - name: token")
    edit(project, YAML, "added", "- name: token", "- name: extra\n          - name: token")
    column = f"          - {typed('part', 'int')}\n"
    edit(project, YAML, "dropped", column, "")
    edit(project, YAML, "kept", column, "")
    edit(project, YAML, "renamed", "- name: part", "- name: piece")
    edit(project, YAML, "cased", "- name: name", "- name: Name")
    edit(project, YAML, "cased", "- name: id", "- name: ID")
    edit(project, YAML, "cased", "key: id", "key: ID")
    current = project.folder / "models/current/drift/cur_drift__keys.sql"
    current.write_text(current.read_text().replace("['id']", "['id', 'part']"))
    history = "models/history/drift/hist_drift__tracked.sql"
    file = project.folder / history
    file.write_text(file.read_text().replace("),\n)", "),\n    tracked=['name'],\n)"))
    for table in (*DRIFTED, *RESHAPED):
        extra = "x," if table == "wider" else ""
        part = "" if table == "dropped" else "1,"
        line = f"U,2024-01-02 00:00:01,1,{part}b,{extra}2\n"
        project.land(
            f"drift/{table}/20240102-000000000.csv", (HEADER if table == "kept" else "") + line
        )
    for table, at in TIMED.items():
        line = f"U,2024-01-02 00:00:01,{at},1,1,b,2\n"
        project.land(f"drift/{table}/20240102-000000000.csv", line)
    result = project.dbt("build")
    said = {item.node.name: item.message or "" for item in result.result if item.status == "error"}
    return project, said


def _as_an_older_tidemark_built_it(project: Project) -> None:
    """The histories of TIMED get the version keys of then, and forget that theirs are others."""
    old = "md5(to_json(struct(id, at, unix_micros(valid_from) as valid_from)))"
    for table in TIMED:
        history = f"history.hist_drift__{table}"
        is_same = project.rows(history, [f"version_key = {old}"])
        assert is_same == [(table == "exact",)], "keys of milliseconds stay, others do not"
        project.spark.sql(f"update {history} set version_key = {old}")
        rows = project.spark.sql(f"show tblproperties {history}").collect()
        told = json.loads({row.key: row.value for row in rows}["tidemark.derived_from"])
        del told["times in version keys"]
        told = f"'tidemark.derived_from' = '{json.dumps(told)}'"
        project.spark.sql(f"alter table {history} set tblproperties ({told})")


TABLES = [
    ("cur_drift__keys", "key was id integer and is now id integer, part integer"),
    ("hist_drift__keys", "key was id integer and is now id integer, part integer"),
    ("hist_drift__clock", "sequence was token int and is now token bigint"),
    ("cur_drift__narrow", "columns left out was not set and is now name"),
    ("hist_drift__sparse", "partial rows was not set and is now name if name is null"),
    ("hist_drift__tracked", "tracked columns was all and is now name"),
    ("hist_drift__instant", "times in version keys was milliseconds, by an older Tidemark"),
]


@pytest.mark.parametrize(("model", "message"), TABLES, ids=[model for model, _ in TABLES])
def test_drift_is_refused_before_writing(
    drifted: tuple[Project, dict[str, str]], model: str, message: str
) -> None:
    project, said = drifted
    assert message in said[model]
    assert f"dbt build --full-refresh --select {model}" in said[model]
    # The version keys of `instant` were made old, with two commits.
    is_old = model == "hist_drift__instant"
    assert project.commits(f"{_schema(model)}.{model}") == (3 if is_old else 1)


def _schema(model: str) -> str:
    return "current" if model.startswith("cur") else "history"


def test_what_fits_is_no_drift(drifted: tuple[Project, dict[str, str]]) -> None:
    project, said = drifted
    assert not {name for name in said if name.endswith(("wider", "exact"))}
    for table in ("wider", "tracked", "instant"):
        assert project.rows(f"current.cur_drift__{table}", ["name"]) == [("b",)]
    assert len(project.rows("history.hist_drift__exact", ["version_key"])) == 2
    columns = ["id", "name", "extra", "version_number"]
    rows = project.rows("history.hist_drift__wider", columns, "valid_from")
    assert rows == [(1, "a", None, 1), (1, "b", "x", 2)]


COLUMNS_OF = [
    ("dropped", ["id", "part", "name"], [(1, 1, "a"), (1, None, "b")]),
    ("kept", ["id", "part", "name"], [(1, 1, "a"), (1, 1, "b")]),
    ("renamed", ["id", "part", "piece", "name"], [(1, 1, None, "a"), (1, None, 1, "b")]),
    ("cased", ["id", "part", "name"], [(1, 1, "a"), (1, 1, "b")]),
    ("added", ["id", "part", "extra", "name"], [(1, 1, None, "a")]),
]
# The one of them whose history a full refresh builds anew.
REBUILT = "dropped"


@pytest.mark.parametrize(("table", "columns", "versions"), COLUMNS_OF)
def test_columns_come_and_go_in_the_yaml(
    drifted: tuple[Project, dict[str, str]],
    table: str,
    columns: list[str],
    versions: list[tuple[Any, ...]],
) -> None:
    """Rule 22."""
    project, said = drifted
    assert not {name: message for name, message in said.items() if name.endswith(f"__{table}")}
    in_history, in_current = found(project, table, columns)
    assert [row[:-1] for row in in_history] == versions
    assert in_current == [versions[-1]]
    # As they are written, not only as Spark finds them.
    own = [*columns, "token"]
    written = project.spark.table(f"current.cur_drift__{table}").columns
    assert sorted(name for name in written if name[0] != "_") == sorted(own)


def found(project: Project, table: str, columns: list[str]) -> tuple[list[Any], list[Any]]:
    """The versions of a table, with their keys, and its current rows."""
    history, current = f"history.hist_drift__{table}", f"current.cur_drift__{table}"
    versions = project.rows(history, [*columns, "version_key"], "valid_from")
    return versions, project.rows(current, columns)


def test_a_full_refresh_derives_the_table_anew_with_the_same_keys(
    drifted: tuple[Project, dict[str, str]],
) -> None:
    """Rule 26: of tables without a drift, a rebuild gives the same."""
    project, _ = drifted

    def first_key() -> Any:
        table = "history.hist_drift__tracked"
        return project.rows(table, ["version_key"], "valid_from")[0]

    def without_drift() -> list[Any]:
        columns = next(columns for table, columns, _ in COLUMNS_OF if table == REBUILT)
        return found(project, REBUILT, columns)[0]

    before = first_key(), without_drift()
    models = ["cur_drift__keys"]
    models += [f"hist_drift__{table}" for table in ("tracked", "instant", REBUILT)]
    project.build("--full-refresh", "--select", *models)
    assert (first_key(), without_drift()) == before
    assert project.rows("current.cur_drift__keys", ["id", "part", "name"]) == [(1, 1, "b")]
    # And goes on from there.
    project.land(
        "drift/instant/20240103-000000000.csv",
        f"U,2024-01-03 00:00:01,{TIMED['instant']},1,1,c,3\n",
    )
    project.land("drift/tracked/20240103-000000000.csv", "U,2024-01-03 00:00:01,1,1,b,3\n")
    project.build("--select", "hist_drift__tracked", "hist_drift__instant")
    assert len(project.rows("history.hist_drift__instant", ["version_key"])) == 3
    assert len(project.rows("history.hist_drift__tracked", ["version_key"])) == 2


@pytest.mark.slow
def test_a_table_that_widens_with_late_changes_leaves_nothing_in_the_cache(
    module_project: Callable[[], Project],
) -> None:
    """Spark could not remove the keys from its cache, and then each write to the log failed."""
    project = module_project()
    columns = {"id": "int", "n": "int", "seq": "int"}
    project.add("widening.t", columns, "id", sequence="seq")
    project.land("widening/t/20240101-000000000.csv", "I,1,1,5\nI,2,2,5\n")
    project.build()
    edit(
        project,
        "models/staging/widening/_widening__sources.yml",
        "t",
        typed("n", "int"),
        typed("n", "bigint"),
    )
    project.land("widening/t/20240102-000000000.csv", "U,1,3000000000,3\nU,2,2,6\n")
    project.build()
    # Spark lands it, because of the bad row.
    project.land("widening/t/20240103-000000000.csv", "U,2,4000000000,7\nU,2,x,8\n")
    project.build()
    assert project.rows("current.cur_widening__t", ["id", "n"], "id") == [
        (1, 1),
        (2, 4_000_000_000),
    ]
    versions = project.rows("history.hist_widening__t", ["id", "n"], "id, version_number")
    assert versions == [(1, 1), (2, 2), (2, 2), (2, 4_000_000_000)]
