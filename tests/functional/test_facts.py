"""What a build knows of its table from Delta's log: right, or asked of Spark instead."""

import re
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.spark import session as spark_session
from pyspark.sql import SparkSession

from tests.project import Project
from tidemark.dbt_plugin import changes, facts

pytestmark = pytest.mark.functional

# Values of `_order.sequence`, the highest one last. Delta cuts long texts and times.
SEQUENCES = {
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "tinyint": ["null", "5"],
    "string": ["'9'", "''", "concat(repeat('z', 40), '''$\\\\')"],
    "timestamp": ["'0001-01-01'", "'2024-01-01 00:00:00.123456'"],
    "date": ["'1582-10-04'", "'9999-12-31'"],
    "struct<at: timestamp, file: string, position: bigint>": [
        "struct(timestamp'2024-01-01', 'b', 1L)",
        "struct(timestamp'2024-01-02', 'a', 9L)",
    ],
}
# Of these, Delta's log may tell less than the highest value, or Python cannot write it.
UNKNOWN = {
    "decimal(38,18)": ["'0.000000000000000001'"],
    "double": ["'0.1'"],
    "timestamp": ["'9999-12-31 23:59:59.9999'"],
}


def adapter_of(spark: SparkSession) -> Any:
    """What `facts` needs of an adapter: to look a table up."""

    def get_relation(_: Any, schema: str, name: str) -> SimpleNamespace | None:
        rows = spark.sql(f"show table extended in {schema} like '{name}'").collect()
        return SimpleNamespace(information=rows[0].information) if rows else None

    return SimpleNamespace(get_relation=get_relation)


def of(name: str) -> SimpleNamespace:
    schema, identifier = name.split(".")
    return SimpleNamespace(database=None, schema=schema, identifier=identifier)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, str]:
    """A table for each type of sequence: two loads, and in the second file no sequence."""
    spark.sql("create schema if not exists facts")
    wanted = [*SEQUENCES.items(), *UNKNOWN.items()]
    names = {f"{of} {values[-1]}": f"facts.t{nth}" for nth, (of, values) in enumerate(wanted)}

    def create(name: str, data_type: str, values: list[str]) -> None:
        cast = [f"cast({value} as {data_type})" for value in values]
        rows = [
            f"select 1 as id, named_struct('phase', 1, 'sequence', {value}) as _order, "
            f"timestamp'2024-01-0{nth + 1} 00:00:00.0009' as _changed_at, 6L as _load_id"
            for nth, value in enumerate(cast)
        ]
        spark.sql(f"create or replace table {name} using delta as {' union all '.join(rows)}")
        spark.sql(
            f"insert into {name} values (2, named_struct('phase', 0, 'sequence', "
            f"cast(null as {data_type})), timestamp'1582-10-04', 7L)"
        )

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(create, names.values(), *zip(*wanted, strict=True)))
    return names


@pytest.mark.parametrize("data_type", SEQUENCES)
def test_no_row_is_above_the_bounds(
    spark: SparkSession, tables: dict[str, str], data_type: str
) -> None:
    name = tables[f"{data_type} {SEQUENCES[data_type][-1]}"]
    found = facts.newest_rows(adapter_of(spark), of(name))
    assert found
    assert (found["applied"], found["row_count"]) == (7, len(SEQUENCES[data_type]) + 1)
    of_row = "struct(_order.phase, _order.sequence)"
    (row,) = spark.sql(
        f"select count_if({of_row} > {found['known_until']}) as above, "
        f"max(_changed_at) <= {found['known_at']} as is_before, "
        f"{found['known_at']} < max(_changed_at) + interval 2 milliseconds as is_near from {name}"
    ).collect()
    assert (row["above"], row["is_before"], row["is_near"]) == (0, True, True)


@pytest.mark.parametrize("data_type", UNKNOWN)
def test_a_bound_that_may_be_too_low_is_none(
    spark: SparkSession, tables: dict[str, str], data_type: str
) -> None:
    name = tables[f"{data_type} {UNKNOWN[data_type][-1]}"]
    found = facts.newest_rows(adapter_of(spark), of(name))
    assert found
    assert (found["applied"], found["known_until"]) == (7, None)


def test_types_are_those_that_spark_describes(spark: SparkSession) -> None:
    name = "facts.types"
    types = {
        "a": "tinyint",
        "b": "smallint",
        "c": "int",
        "D": "bigint",
        "e": "decimal(38,18)",
        "f": "float",
        "g": "double",
        "h": "string",
        "i": "binary",
        "j": "boolean",
        "k": "date",
        "l": "timestamp",
        "m": "timestamp_ntz",
        "n": "array<struct<x:bigint,Y:array<int>>>",
        "o": "map<string,decimal(3,1)>",
        "p": "struct<phase:int,sequence:struct<z:bigint>>",
    }
    spark.sql("create schema if not exists facts")
    spark.sql(
        f"create or replace table {name} ({', '.join(map(' '.join, types.items()))}) using delta"
    )
    found = facts.declared(adapter_of(spark), of(name))
    described = spark.sql(f"describe table {name}").collect()
    assert found
    assert found["types"] == {row.col_name.lower(): row.data_type for row in described}


def test_a_table_elsewhere_is_asked(spark: SparkSession, tables: dict[str, str]) -> None:
    known = next(iter(tables.values()))
    assert facts.newest_rows(adapter_of(spark), of("facts.none")) is None
    adapter = adapter_of(spark)
    adapter.get_relation = lambda *_: SimpleNamespace(information="Location: file:/elsewhere/t0")
    assert facts.newest_rows(adapter, of(known)) is None
    adapter.get_relation = lambda *_: SimpleNamespace(information=None)
    assert facts.newest_rows(adapter, of(known)) is None


def test_a_file_without_statistics_is_asked(spark: SparkSession) -> None:
    name = "facts.silent"
    spark.sql(
        f"create or replace table {name} using delta "
        "tblproperties ('delta.dataSkippingNumIndexedCols' = '0') as "
        "select named_struct('phase', 1, 'sequence', 5L) as _order, "
        "timestamp'2024-01-01' as _changed_at, 7L as _load_id"
    )
    assert facts.newest_rows(adapter_of(spark), of(name)) is None


def test_a_log_with_deletion_vectors_is_asked(spark: SparkSession) -> None:
    name = "facts.erased"
    spark.sql(
        f"create or replace table {name} using delta partitioned by (_is_delete) "
        "tblproperties ('delta.enableDeletionVectors' = 'true') as "
        "select /*+ coalesce(1) */ 1L as _load_id, 'I' as _op, false as _is_delete, id "
        "from values ('1'), ('2') v(id)"
    )
    feed = {"key": ["id"], "columns": {"id": "int"}, "logs": [of(name)]}
    found = changes.first_changes(adapter_of(spark), feed)
    assert found
    assert (found["changes"], found["changed_keys"]) == (2, 2)
    spark.sql(f"delete from {name} where id = '2'")
    assert changes.first_changes(adapter_of(spark), feed) is None


def test_models_of_a_feed_ask_for_its_changes_and_late_keys_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"id": "int", "x": "string", "seq": "bigint"}
    project.add("facts_once.t", columns, "id", sequence="seq", timestamp_column="ts")
    asked: list[str] = []
    execute = spark_session.Cursor.execute

    def recorded(self: Any, sql: str, *parameters: Any) -> None:
        asked.append(sql)
        execute(self, sql, *parameters)

    def build(day: int, *lines: str) -> list[str]:
        project.land(f"facts_once/t/2024010{day}-000000000.csv", "\n".join(lines) + "\n")
        asked.clear()
        project.build()
        return [sql for sql in asked if "from staging.stg_facts_once__t" in sql]

    monkeypatch.setattr(spark_session.Cursor, "execute", recorded)
    first = build(1, "I,2024-01-01 00:00:01,1,a,1", "I,2024-01-01 00:00:02,2,a,2")
    assert not [sql for sql in first if "changed_keys" in sql]
    in_order = build(2, "U,2024-01-02 00:00:01,1,b,3")
    # Only the merges' source of each table.
    assert not [sql for sql in in_order if "known_deletes" in sql]
    assert len(in_order) == 2
    assert not [sql for sql in asked if "as applied" in sql]
    # Of each table, Spark is asked for: the table, that the merge has the rows, a setting, the
    # merge. The first one asks for the columns of the changes, too.
    of_tables = [sql for sql in asked if re.search(r'"model\.showcase\.(cur|hist)_', sql)]
    assert len(of_tables) == 5 + 4, "\n".join(of_tables)
    assert not [sql for sql in of_tables if "temporary view" in sql]
    assert sum("show databases" in sql for sql in asked) == 1
    assert not [sql for sql in asked if "view staging.stg_facts_once__t" in sql]
    rows = project.rows("history.hist_facts_once__t", ["id", "x", "is_current"], "id, valid_from")
    assert rows == [(1, "a", False), (1, "b", True), (2, "a", True)]
    # What late changes read is their own matter: test_convergence has them.
    late = build(3, "U,2024-01-01 00:00:03,1,late,2", "U,2024-01-03 00:00:01,2,b,4")
    assert not [sql for sql in late if "known_deletes" in sql]
    name = "hist_facts_once__t__new_keys"
    (view,) = (sql for sql in asked if f"create or replace temporary view {name} as" in sql)
    (merge,) = project.folder.glob("target/compiled/**/hist_facts_once__t.sql")
    project.spark.sql(view)
    project.spark.sql(f"cache table {name}")
    ((plan,),) = project.spark.sql(f"explain {merge.read_text()}").collect()
    project.spark.sql(f"uncache table {name}")
    assert f"Scan In-memory table {name}" in plan, plan
    # Spark is asked about the changes of a view that somebody has written.
    (staging,) = project.folder.glob("models/**/stg_facts_once__t.sql")
    staging.write_text(f"select * from ({staging.read_text()}) where id <> 9")
    own = build(4, "U,2024-01-04 00:00:01,9,a,5")
    assert sum("known_deletes" in sql for sql in own) == 1
    assert project.rows("current.cur_facts_once__t", ["id"]) == [(1,), (2,)]


@pytest.mark.slow
def test_a_log_is_complete_as_its_files_say(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add("facts_log.t", {"id": "int", "x": "string"}, "id")
    log = "log_facts_log.t"

    def is_proved() -> bool:
        with project.here():
            return facts.has_all_loads(adapter_of(project.spark), of(log), "facts_log", "t")

    def is_complete() -> bool:
        select = ("--select", "source:facts_log.t,test_type:generic")
        return bool(project.dbt("test", *select).success)

    project.test_log("facts_log", "t")
    for day in (1, 2):
        # The second file has a bad row.
        project.land(f"facts_log/t/2024010{day}-000000000.csv", f"I,{day},a\nI,{'x' * day},a\n")
        project.build()
    project.land("facts_log/t/20240103-000000000.csv", "I,3,a\nD,3,\n")
    project.build()
    assert is_proved()
    asked: list[str] = []
    execute = spark_session.Cursor.execute

    def recorded(self: Any, sql: str, *parameters: Any) -> None:
        asked.append(sql)
        execute(self, sql, *parameters)

    with monkeypatch.context() as patched:
        patched.setattr(spark_session.Cursor, "execute", recorded)
        assert is_complete()
    assert not [sql for sql in asked if log in sql and "_position" in sql]

    vectors = "set tblproperties ('delta.enableDeletionVectors' = 'true')"
    for change in (
        f"insert into {log} select * from {log} where id = 1",
        f"delete from {log} where id = 1",
        f"update {log} set _load_id = 2 where id = 1",
        f"alter table {log} {vectors}; delete from {log} where id = 3 and _op = 'I'",
    ):
        for statement in change.split("; "):
            project.spark.sql(statement)
        assert (is_proved(), is_complete()) == (False, False), change
        project.spark.sql(f"restore table {log} to version as of 3")
        assert is_proved(), change
    # A compacted file has rows of several loads.
    project.spark.sql(f"optimize {log}")
    assert (is_proved(), is_complete()) == (False, True)
