"""The traps of dbt-spark 1.11, Spark and Delta that dbt_tidemark and macros/overrides close.

One project is built three times; `step` is the number of the build. Each trap stands with its
files and with the tests that fail when its fix is taken away.
"""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.spark.impl import SparkAdapter
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.exceptions import DbtRuntimeError

import dbt_tidemark  # noqa: F401 - what dbt would import by itself
from tests.project import Project
from tidemark.dbt_plugin import python_models, relations
from tidemark.shared import shared
from tidemark.spark import lock, session

pytestmark = pytest.mark.functional

FILES = {
    "models/sources.yml": """
sources:
  - name: traps
    tables: [{name: people}, {name: step}]
""",
}

STEP = "(select step from {{ source('traps', 'step') }})"


def incremental(select: str, **settings: Any) -> str:
    """The text of an incremental model that merges, in a schema of the traps'."""
    config = {"schema": "traps_made", "incremental_strategy": "merge", "unique_key": "id"}
    arguments = ", ".join(f"{key}={value!r}" for key, value in {**config, **settings}.items())
    return f"{{{{ config(materialized='incremental', {arguments}) }}}}\n{select}\n"


@dataclass
class Lab:
    """The project, what dbt said last of each node, and how often `merged` was written."""

    project: Project
    said: dict[str, str] = field(default_factory=dict)
    commits: list[int] = field(default_factory=list)

    def build(self, *arguments: str) -> Any:
        result = self.project.dbt("build", *arguments)
        assert result.exception is None, result.exception
        self.said.update({item.node.name: item.message or "" for item in result.result})
        return result

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.project.spark.sql(query).collect()]


# What the builds take: all, and then what has something to show in a second and a third one.
SELECTED = {
    1: ["*"],
    2: ["kept", "merged", "seeded", "grows", "py_merge", "*_cars", "people_*", "unknown_column"],
    3: ["merged", "people_*"],
}
BROKEN = {"unknown_column", "fails_while_running", "query_fails", "py_wrong_line", "py_late"}


@pytest.fixture(scope="module")
def lab(module_project: Callable[[], Project]) -> Lab:
    """Three builds. Only the nodes that are broken on purpose fail."""
    lab = Lab(module_project())
    for path, text in FILES.items():
        lab.project.write(path, text)
    lab.project.spark.sql("create schema traps")
    for step in (1, 2, 3):
        lab.project.spark.sql(f"create or replace view traps.step as select {step} as step")
        lab.project.spark.sql(f"create or replace view traps.people as {PEOPLE[step]}")
        result = lab.build("--threads", "4", "--select", *SELECTED[step])
        failed = {r.node.name for r in result.result if r.status in ("error", "fail")}
        assert failed - BROKEN == set(), {name: lab.said[name] for name in failed - BROKEN}
        lab.commits.append(lab.project.commits("traps_made.merged"))
    return lab


# --- A table that vanishes while dbt lists a schema -------------------------------------------

FILES["models/kept.sql"] = incremental(f"select {STEP} as id", schema="traps_kept")


def vanishing(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Spark's answer when a table is dropped between two steps of a listing, `times` times."""
    execute = SparkAdapter.execute
    left = [times]

    def listing_fails(self: SparkAdapter, sql: str, **arguments: Any) -> Any:
        if sql.startswith("show table extended") and left[0]:
            left[0] -= 1
            raise DbtRuntimeError("[TABLE_OR_VIEW_NOT_FOUND] `traps_kept`.`other` is gone")
        return execute(self, sql, **arguments)

    monkeypatch.setattr(SparkAdapter, "execute", listing_fails)


def test_a_table_that_vanishes_during_a_listing_does_not_empty_the_others(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    vanishing(monkeypatch, times=1)
    assert lab.project.dbt("run", "--select", "kept").success
    assert lab.rows("select id from traps_kept.kept order by id") == [(1,), (2,), (3,)]


def test_a_schema_that_cannot_be_listed_fails_the_model(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    vanishing(monkeypatch, times=1000)
    monkeypatch.setattr(relations, "_TRIES", 2)
    results = lab.project.dbt("run", "--select", "kept").result
    (message,) = [each.message for each in results if each.node.name == "kept"]
    assert "The tables of traps_kept could not be listed" in message
    assert lab.rows("select id from traps_kept.kept order by id") == [(1,), (2,), (3,)]


def answering(*answers: Any) -> tuple[SparkAdapter, list[str]]:
    """An adapter that gets these answers, or errors, and the statements that it sends."""
    left, sent = iter(answers), []
    adapter = SparkAdapter.__new__(SparkAdapter)

    def execute(sql: str, fetch: bool) -> Any:
        sent.append(sql)
        answer = next(left)
        if isinstance(answer, str):
            raise DbtRuntimeError(answer)
        return None, answer

    adapter.execute = execute
    return adapter, sent


def test_an_error_of_a_listing_is_never_an_empty_schema() -> None:
    adapter, _ = answering("[CANNOT_CONNECT] no metastore", "[TABLE_OR_VIEW_NOT_FOUND] gone")
    with pytest.raises(DbtRuntimeError, match="no metastore"):
        adapter.list_relations_without_caching(SparkRelation.create(schema="a_schema"))


def test_a_name_that_is_a_pattern_is_looked_up_in_the_whole_schema() -> None:
    adapter, sent = answering([], [])
    for name in ("plain_1", "a|b"):
        adapter.list_relations_without_caching(SparkRelation.create(schema="s", identifier=name))
    assert sent == [
        "show table extended in s like 'plain_1'",
        "show table extended in s like '*'",
    ]


# --- The metadata of tables that a run does not need ------------------------------------------

FILES["models/looks_up.sql"] = """
{{ config(schema='traps_made', materialized='table') }}
{% set found = [] %}
{% if execute %}
    {% do run_query('create schema traps_look') %}
    {% for name in ('a_b', 'axb', 'a_b_c', 'gone') %}
        {% do run_query('create table traps_look.' ~ name ~ ' (id int) using delta') %}
    {% endfor %}
    {% for name in ('a_b', 'A_B', 'nothing', 'gone') %}
        {% set relation = adapter.get_relation(none, 'traps_look', name) or {} %}
        {% do found.append(relation.identifier | string) %}
    {% endfor %}
    {% do adapter.drop_relation(adapter.get_relation(none, 'traps_look', 'gone')) %}
    {% do adapter.rename_relation(
        adapter.get_relation(none, 'traps_look', 'a_b'),
        api.Relation.create(schema='traps_look', identifier='renamed', type='table')
    ) %}
    {% for name in ('gone', 'a_b', 'renamed', 'axb') %}
        {% set relation = adapter.get_relation(none, 'traps_look', name) or {} %}
        {% do found.append(relation.identifier | string) %}
    {% endfor %}
    {% do found.append(adapter.get_relation(none, 'traps_look', 'a_b_c').is_delta | string) %}
    {% do adapter.drop_schema(api.Relation.create(schema='traps_look')) %}
    {% for name in ('axb',) %}
        {% set relation = adapter.get_relation(none, 'traps_look', name) or {} %}
        {% do found.append(relation.identifier | string) %}
    {% endfor %}
{% endif %}
select '{{ found | join(' ') }}' as found
"""


def test_tables_are_looked_up_one_by_one(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    ((found,),) = lab.rows("select found from traps_made.looks_up")
    assert found.split(" ") == [
        *("a_b", "a_b", "", "gone"),
        *("", "", "renamed", "axb"),
        "True",
        "",
    ]
    sent: list[str] = []
    execute = SparkAdapter.execute

    def noted(self: SparkAdapter, sql: str, **arguments: Any) -> Any:
        sent.append(sql)
        return execute(self, sql, **arguments)

    monkeypatch.setattr(SparkAdapter, "execute", noted)
    assert lab.project.dbt("run", "--select", "kept").success
    assert [sql for sql in sent if "show table" in sql] == [
        "show table extended in traps_kept like 'kept'"
    ]


# --- Models that share a name, and threads ----------------------------------------------------

SAME_NAME = ("red", "green", "blue", "grey")
for color in SAME_NAME:
    FILES[f"models/{color}_cars.sql"] = incremental(
        f"select concat('{color}', id, {STEP}) as id, '{color}' as color from range(5)",
        schema=f"traps_{color}",
        alias="cars",
    )


def test_models_of_one_name_in_several_schemas_keep_their_rows_apart(lab: Lab) -> None:
    for color in SAME_NAME:
        found = lab.rows(f"select color, count(*) from traps_{color}.cars group by color")
        assert found == [(color, 10)]


FILES["models/sets_its_zone.sql"] = """
{{ config(schema='traps_made', materialized='table') }}
{{ config(pre_hook='set spark.sql.session.timeZone = Asia/Tokyo') }}
select current_timezone() as zone
"""
FILES["models/keeps_its_zone.sql"] = """
{{ config(schema='traps_made', materialized='table') }}
select (select max(zone) from {{ ref('sets_its_zone') }}) as before, current_timezone() as zone
"""


def test_a_setting_of_one_model_does_not_reach_the_next(lab: Lab) -> None:
    zones = lab.rows("select before, zone from traps_made.keeps_its_zone")
    assert zones == [("Asia/Tokyo", "UTC")]


# --- Python models ----------------------------------------------------------------------------

FILES["models/py_table.py"] = """
import pandas


def model(dbt, session):
    dbt.config(schema="traps_made", greeting="hello")
    people = dbt.source("traps", "people").count()
    rows = [(1, dbt.config.get("greeting"), people), (2, None, people)]
    return pandas.DataFrame(rows, columns=["id", "word", "people"])
"""

FILES["models/py_merge.py"] = """
def model(dbt, session):
    dbt.config(schema="traps_made", materialized="incremental", unique_key="id")
    dbt.config(incremental_strategy="merge")
    cars = dbt.ref("red_cars").selectExpr("id")
    return cars.selectExpr("id", f"{str(dbt.is_incremental).lower()} as merged")
"""

FILES["models/py_wrong_line.py"] = """
# A comment.
def model(dbt, session):
    dbt.config(schema="traps_made", materialized="table")
    return session.range(3).selectExpr("nope")
""".lstrip()

FILES["models/py_late.py"] = """
def model(dbt, session):
    dbt.config(schema="traps_made", materialized="table")
    return session.range(3).selectExpr("if(id < 2, id, raise_error('too late')) as id")
""".lstrip()


def test_a_python_model_reads_sources_and_settings_and_keeps_null(lab: Lab) -> None:
    rows = lab.rows("select id, word, people from traps_made.py_table order by id")
    assert rows == [(1, "hello", 2), (2, None, 2)]


def test_a_python_model_merges(lab: Lab) -> None:
    rows = lab.rows("select count(*), count_if(merged) from traps_made.py_merge")
    assert rows == [(10, 10)]
    history = lab.project.spark.sql("describe history traps_made.py_merge").collect()
    operations = [row.operation for row in history]
    assert operations == ["MERGE", "CREATE OR REPLACE TABLE AS SELECT"]
    assert lab.rows("show tables in traps_made like 'py_merge__dbt_tmp'") == []


def test_an_error_in_a_python_model_names_its_file_and_line(lab: Lab) -> None:
    assert "models/py_wrong_line.py, line 4: [UNRESOLVED_COLUMN" in lab.said["py_wrong_line"]


def test_an_error_after_a_python_models_last_line_names_its_file_alone(lab: Lab) -> None:
    assert "models/py_late.py: Py4JJavaError" in lab.said["py_late"]
    # Spark 4 says [USER_RAISED_EXCEPTION] before it.
    assert "too late" in lab.said["py_late"]


def helper(method: str, code: str) -> python_models.PythonModelHelper:
    model = {"original_file_path": "models/a.py", "raw_code": code}
    return python_models.PythonModelHelper(model, SimpleNamespace(method=method))


def test_a_syntax_error_in_a_python_model_names_its_file_and_line(lab: Lab) -> None:
    code = "x = 1\nx = = 2"
    with pytest.raises(DbtRuntimeError, match="models/a.py, line 2: SyntaxError: invalid syntax"):
        helper("session", code).submit(f"\n\n  {code}\n# and more\n")


def test_a_syntax_error_in_an_imported_module_names_the_import(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_broken_module.py").write_text("\n" * 7 + "x = = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    code = "x = 1\nimport a_broken_module"
    with pytest.raises(DbtRuntimeError, match=r"models/a.py, line 2: .*a_broken_module.py, line 8"):
        helper("session", code).submit(code)


def test_a_python_model_on_another_method_is_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The method is noted for the whole process, and is not that of later tests.
    monkeypatch.setattr(shared, "method", shared.method)
    with pytest.raises(DbtRuntimeError) as error:
        helper("http", "")
    assert error.value.msg == (
        "models/a.py: Python models need a target with method session or thrift, but this target "
        "has method http."
    )


# --- Seeds ------------------------------------------------------------------------------------

FILES["seeds/seeded.yml"] = """
seeds:
  - name: seeded
    config: {schema: traps_made, column_types: {price: "decimal(38, 10)", code: string}}
"""
FILES["seeds/seeded.csv"] = r'''id,word,code,big,price,day,moment
1,O'Brien,007,9007199254740993,123456789012345678.0123456789,2024-02-29,2024-02-29 12:34:56
2,back\slash,,,,,
3,"two
lines ""quoted""",x,-9007199254740993,0.0000000001,1969-12-31,
4,${spark.sql.session.timeZone} %s,y,1,-1,,1969-12-31 23:59:59
'''


def test_a_seed_arrives_as_it_was_written(lab: Lab) -> None:
    rows = lab.rows(
        "select id, word, code, big, price, cast(day as string), cast(moment as string) "
        "from traps_made.seeded order by id"
    )
    large, small = Decimal("123456789012345678.0123456789"), Decimal("0.0000000001")
    assert rows == [
        (1, "O'Brien", "007", 9007199254740993, large, "2024-02-29", "2024-02-29 12:34:56"),
        (2, r"back\slash", None, None, None, None, None),
        (3, 'two\nlines "quoted"', "x", -9007199254740993, small, "1969-12-31", None),
        (4, "${spark.sql.session.timeZone} %s", "y", 1, -1, None, "1969-12-31 23:59:59"),
    ]


def test_a_seed_is_replaced_in_place(lab: Lab) -> None:
    commits = lab.rows("describe history traps_made.seeded")
    created = [operation for commit in commits if "CREATE" in (operation := commit[4])]
    assert created == ["CREATE OR REPLACE TABLE"] * 2


# --- Sizes ------------------------------------------------------------------------------------

FILES["models/grows.sql"] = """
{{ config(schema='traps_made', materialized='incremental', incremental_strategy='append') }}
select uuid() as id from range({% if is_incremental() %} 20000 {% else %} 1 {% endif %})
"""


def test_a_table_that_grew_is_not_planned_by_its_size_at_birth(lab: Lab) -> None:
    ((plan,),) = lab.rows("explain cost select * from traps_made.grows")
    match = re.search(r"Relation.*sizeInBytes=([0-9.]+) (\w+)", plan)
    assert match, plan
    size = float(match[1]) * {"B": 1, "KiB": 1024, "MiB": 1024**2}[match[2]]
    # Two appends of 20000 identifiers of 36 bytes, compressed.
    assert 200_000 < size < 5_000_000


# --- Snapshots --------------------------------------------------------------------------------

PEOPLE = {
    1: "select * from values (1, 'ann', 'x'), (2, 'bob', 'y') as t(id, name, note)",
    2: "select * from values (1, 'ann', 'x'), (3, 'cyd', 'z') as t(id, name, note)",
    3: "select * from values (1, 'eve'), (2, 'bob'), (3, 'cyd') as t(id, name)",
}
FILES["snapshots/people.yml"] = """
snapshots:
  - name: people_marked
    relation: source('traps', 'people')
    config: &config
      {schema: traps_made, strategy: check, unique_key: id, check_cols: [name],
       hard_deletes: new_record}
  - name: people_closed
    relation: source('traps', 'people')
    config:
      {schema: traps_made, strategy: check, unique_key: id, check_cols: [name],
       hard_deletes: invalidate, dbt_valid_to_current: "timestamp'9999-12-31'"}
"""


def test_a_snapshots_deletion_row_says_what_was_deleted(lab: Lab) -> None:
    rows = lab.rows(
        "select id, name, note, dbt_is_deleted, dbt_valid_to is null from "
        "traps_made.people_marked order by id, dbt_valid_from"
    )
    assert rows == [
        (1, "ann", "x", "False", False),
        (1, "eve", None, "False", True),
        (2, "bob", "y", "False", False),
        (2, "bob", "y", "True", False),
        (2, "bob", None, "False", True),
        (3, "cyd", "z", "False", True),
    ]


def test_a_snapshot_outlives_a_column_that_its_source_drops(lab: Lab) -> None:
    rows = lab.rows(
        "select id, name, note, dbt_valid_to = timestamp'9999-12-31' from "
        "traps_made.people_closed order by id, dbt_valid_from"
    )
    assert rows == [
        (1, "ann", "x", False),
        (1, "eve", None, True),
        (2, "bob", "y", False),
        (2, "bob", None, True),
        (3, "cyd", "z", True),
    ]


# --- The merge --------------------------------------------------------------------------------

FILES["models/merged.sql"] = incremental(
    f"""
select part, id, op, seq from values
    (1, null, 1, 'I', 1), (1, 'a', 2, 'I', 5), (1, 'a', 3, 'I', 5),
    (2, null, 1, 'U', 2), (2, 'a', 2, 'U', 4), (2, 'a', 3, 'D', 6),
    (2, 'a', 4, 'D', 1), (2, 'a', 5, 'I', 1)
as t(step, part, id, op, seq) where step = {STEP}
""",
    unique_key=["part", "id"],
    delete_condition="DBT_INTERNAL_SOURCE.op = 'D'",
    matched_condition="DBT_INTERNAL_SOURCE.seq > DBT_INTERNAL_DEST.seq",
    not_matched_condition="DBT_INTERNAL_SOURCE.op <> 'D'",
)


def test_a_merge_deletes_updates_and_inserts_by_its_conditions(lab: Lab) -> None:
    rows = lab.rows("select part, id, op, seq from traps_made.merged order by id")
    assert rows == [(None, 1, "U", 2), ("a", 2, "I", 5), ("a", 5, "I", 1)]


def test_a_build_is_one_commit_and_none_without_rows(lab: Lab) -> None:
    assert lab.commits == [1, 2, 2]


# --- Errors -----------------------------------------------------------------------------------

FILES["models/unknown_column.sql"] = incremental(
    "select 1 as id", matched_condition="DBT_INTERNAL_SOURCE.nope = 1"
)
FILES["models/fails_while_running.sql"] = """
{{ config(schema='traps_made', materialized='table') }}
select if(id < 2, id, raise_error('too late')) as id from range(3)
"""
FILES["tests/query_fails.sql"] = "select id from range(3) where assert_true(id < 2) is null"


@pytest.mark.parametrize(
    ("node", "reason"),
    {
        "model unknown_column": "[DELTA_MERGE_UNRESOLVED_EXPRESSION] Cannot resolve DBT_INTERNAL_",
        "model fails_while_running": "too late",
        "test query_fails": "is not true!",
    }.items(),
)
def test_an_error_names_its_node_and_reason_without_a_java_stack(
    lab: Lab, node: str, reason: str
) -> None:
    message = lab.said[node.split()[1]]
    assert message.startswith(f"Runtime Error in {node}")
    assert reason in message
    assert "\tat " not in message
    assert len(message.splitlines()) < 8


# --- One process per lake ---------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from tidemark.spark import lock
lock.hold(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def hold(lake: Path, wait_seconds: int) -> subprocess.Popen[str]:
    """Another process that asks for the lake, and keeps it until its standard input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lake), "build"],
        env={**os.environ, "TIDEMARK_WAIT_SECONDS": str(wait_seconds)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_second_process_names_the_holder_and_waits(tmp_path: Path) -> None:
    with hold(tmp_path, 1) as holder:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        who = f"process {holder.pid} (`-c`, since "
        with hold(tmp_path, 1) as impatient:
            _, problem = impatient.communicate()
            assert f"LakeBusyError: The lake {tmp_path} is in use by {who}" in problem
        with hold(tmp_path, 60) as patient:
            assert patient.stdout and patient.stderr
            assert patient.stderr.readline().startswith(f"Waiting for {who}")
            holder.kill()
            assert patient.stdout.readline() == "held\n"
            patient.communicate()


def test_threads_of_one_process_hold_the_lake_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_WAIT_SECONDS", "1")
    together = threading.Barrier(4)

    def hold_at_once(_: int) -> None:
        together.wait()
        lock.hold(tmp_path)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(hold_at_once, range(4)))


def test_threads_of_one_process_start_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing_runs = SimpleNamespace(getActiveSession=lambda: None, _instantiatedSession=None)

    def start() -> object:
        time.sleep(0.1)
        nothing_runs._instantiatedSession = object()
        return nothing_runs._instantiatedSession

    monkeypatch.setattr(session, "SparkSession", nothing_runs)
    monkeypatch.setattr(session, "_start", start)
    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(lambda _: session.get(), range(4)))) == 1
