"""The source's tables change while they are replicated, by Debezium and by what AWS DMS writes.

A column is added, dropped, renamed; types are widened; a key becomes another one; the replication
slot of Debezium is lost. docs/point_it_at_your_database.md says what happens by itself and what a
person must do: this does it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from tests.e2e import debezium, dms, postgres
from tests.e2e.stage import Replica, Stage, now
from tests.project import Project

pytestmark = [pytest.mark.e2e, pytest.mark.functional, pytest.mark.slow]

BEFORE = """
create schema ticketing;
create table ticketing.mark (mark_id integer primary key);
create table ticketing.adds (id integer primary key, a text);
create table ticketing.drops (id integer primary key, a text, b text);
create table ticketing.renames (id integer primary key, a text);
create table ticketing.widens (id integer primary key, n integer, amount numeric(8, 2));
create table ticketing.rekeys (id integer primary key, code text not null);
create table ticketing.rekeys_whole (id integer primary key, code text not null);
create table ticketing.gaps (id integer primary key, a text);
create table ticketing.fills (id integer primary key, a text);
create table ticketing.signals (id text primary key, type text not null, data text);
alter table ticketing.rekeys_whole replica identity full;
insert into ticketing.adds select n, 'old' from generate_series(1, 4) as n;
insert into ticketing.drops select n, 'old', 'b' from generate_series(1, 4) as n;
insert into ticketing.renames select n, 'old' from generate_series(1, 4) as n;
insert into ticketing.widens select n, n, n from generate_series(1, 4) as n;
insert into ticketing.rekeys select n, 'c' || n from generate_series(1, 4) as n;
insert into ticketing.rekeys_whole select n, 'c' || n from generate_series(1, 4) as n;
insert into ticketing.gaps select n, 'old' from generate_series(1, 4) as n;
insert into ticketing.fills select n, 'old' from generate_series(1, 4) as n;
"""
# For each table.
CHANGES = """
update ticketing.{0} set id = id where id = 1;
delete from ticketing.{0} where id = 4;
"""
DDL = """
alter table ticketing.adds add column b integer default 7;
alter table ticketing.fills add column b integer default 7;
alter table ticketing.drops drop column b;
alter table ticketing.renames rename column a to b;
alter table ticketing.widens
    alter column n type bigint, alter column amount type numeric(14, 4);
alter table ticketing.rekeys drop constraint rekeys_pkey, add primary key (code);
alter table ticketing.rekeys_whole drop constraint rekeys_whole_pkey, add primary key (code);
update ticketing.adds set a = 'new' where id = 1;
update ticketing.fills set a = 'new' where id = 1;
update ticketing.drops set a = 'new' where id = 1;
update ticketing.renames set b = 'new' where id = 1;
update ticketing.widens set n = 3000000000, amount = 1.2345 where id = 1;
insert into ticketing.adds values (5, 'new', 1);
insert into ticketing.drops values (5, 'new');
insert into ticketing.renames values (5, 'new');
insert into ticketing.widens values (5, -3000000000, 1234567890.1234);
-- The old key is unique no longer.
update ticketing.rekeys set id = 10 where id = 1;
update ticketing.rekeys_whole set id = 10 where id = 1;
insert into ticketing.rekeys values (10, 'c5');
insert into ticketing.rekeys_whole values (10, 'c5');
"""
# Debezium takes an incremental snapshot of these tables.
SIGNAL = """
insert into ticketing.signals values (
    'fill', 'execute-snapshot', '{"data-collections": ["ticketing.fills"], "type": "incremental"}'
)
"""
OF_DMS = ("adds", "drops", "renames", "widens", "rekeys", "rekeys_whole")
TABLES = (*OF_DMS, "gaps", "fills")
SOURCES = ("ticketing", "ddl")
REKEYED = [f"{source}.{table}" for source in SOURCES for table in ("rekeys", "rekeys_whole")]

Rows = list[tuple[str | None, ...]]


@dataclass
class Ddl:
    """Both producers, one lake, and what it showed."""

    stage: Stage
    capture: dms.Capture
    # By the name of a current table: after the changes of the tables, and at the end.
    after: dict[str, Rows] = field(default_factory=dict)
    end: dict[str, Rows] = field(default_factory=dict)
    source: dict[str, Rows] = field(default_factory=dict)
    versions: dict[str, Rows] = field(default_factory=dict)
    # Table, column, value and reason of each refused row.
    refused: Rows = field(default_factory=list)
    still_refused: Rows = field(default_factory=list)
    filled: Rows = field(default_factory=list)
    # Of models whose rebuild was refused.
    messages: list[str] = field(default_factory=list)
    # By the name of a log: the changes that lack the new key, as operation and old key.
    without_key: dict[str, Rows] = field(default_factory=dict)

    def land(self, mark: int) -> None:
        """Everything that has happened is delivered."""
        self.stage.reach(mark)
        self.capture.wait(partial(self.capture.has_reached, mark), f"mark {mark}")
        self.stage.deliver()
        dms.deliver(self.capture, self.stage.project.landing)

    def shown(self) -> dict[str, Rows]:
        """The rows of the current tables, as texts."""
        return {
            f"{source}.{table}": self._rows(f"current.cur_{source}__{table}")
            for source, tables in zip(SOURCES, (TABLES, OF_DMS), strict=True)
            for table in tables
        }

    def _rows(self, relation: str) -> Rows:
        spark = self.stage.project.spark
        names = [name for name in spark.table(relation).columns if not name.startswith("_")]
        names = [name for name in names if name not in ("changed_at", "version_key", "valid_to")]
        return _texts(self.stage.project.rows(relation, names, "1, 2"))

    def look(self) -> None:
        """Note what the source has, and the histories."""
        for table in TABLES:
            lines = self.stage.source.sql(f"select * from ticketing.{table} order by 1, 2")
            self.source[table] = [
                tuple(value or None for value in line.split("|"))
                for line in lines.split("\n")
                if line
            ]
        for source in SOURCES:
            relation = f"history.hist_{source}__drops"
            found = self.stage.project.rows(
                relation, ("id", "a", "b", "is_current"), "1, valid_from"
            )
            self.versions[source] = _texts(found)

    def dead_letters(self) -> Rows:
        """The open ones."""
        columns = ("source_name", "table_name", "`column`", "value", "reason")
        found = self.stage.project.spark.sql(
            f"select {', '.join(columns)} from tidemark.dead_letter "
            f"where source_name in {SOURCES} and superseded_by is null"
        )
        return sorted(_texts([tuple(row) for row in found.collect()]), key=str)


def _texts(rows: list[tuple[Any, ...]]) -> Rows:
    return [tuple(None if value is None else str(value) for value in row) for row in rows]


@pytest.fixture(scope="module")
def ddl(
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    module_project: Callable[[], Project],
) -> Iterator[Ddl]:
    postgres.require()
    folder = tmp_path_factory.mktemp("ddl")
    with postgres.running() as source:
        source.sql(BEFORE)
        state = folder / "state"
        more = {
            "signal.data.collection": "ticketing.signals",
            "provide.transaction.metadata": "true",
        }
        settings = debezium.settings("shop", source, state, **debezium.EXACT, **more, keys="")
        engine = debezium.Engine(folder / "outbox", state, [settings])
        capture = dms.Capture(dms.Task("dms", OF_DMS, schema="ddl"), source, folder / "dms")
        replica = Replica({"shop": ("ticketing", TABLES)})
        stage = Stage(source, module_project(), replica, lambda _: {}, engine)
        found = Ddl(stage, capture)
        try:
            engine.start()
            capture.prepare()
            capture.start()
            _run(found)
            yield found
        finally:
            capture.stop()
            engine.kill()


def _run(ddl: Ddl) -> None:
    stage, source = ddl.stage, ddl.stage.source
    project, engine = stage.project, stage.engine
    snapshot = [f"shop.ticketing.{table}" for table in TABLES]
    engine.wait(lambda: all(stage.files(topic) for topic in snapshot), "the snapshot")
    for table in TABLES:
        source.sql(CHANGES.format(table))
    ddl.land(1)
    stage.tidemark("discover")
    stage.drop_data_tests()
    stage.tidemark("add", *SOURCES)
    stage.tidemark("run")
    source.sql(DDL)
    for table in (*OF_DMS, "fills"):
        # By the column that is a key before and after.
        column = "code = 'c2'" if table.startswith("rekeys") else "id = 2"
        source.sql(f"delete from ticketing.{table} where {column}")
    ddl.land(2)
    stage.tidemark("run")
    ddl.after, ddl.refused = ddl.shown(), ddl.dead_letters()

    # What a person does.
    source.sql("update ticketing.adds set b = b; update ticketing.renames set b = b")
    source.sql(SIGNAL)
    windows = "select count(*) from ticketing.signals where type = 'snapshot-window-close'"
    engine.wait(lambda: source.sql(windows) != "0", "the incremental snapshot")
    ddl.land(3)
    stage.tidemark("run")
    # Before the next snapshot, which fills it, too.
    ddl.filled = ddl.shown()["ticketing.fills"]
    _declare(project, "adds", {"b": "int"})
    _declare(project, "widens", {"n": "bigint", "amount": "decimal(14,4)"})
    for name in ("rekeys", "rekeys_whole"):
        _declare(project, name, {}, key="code")
    # The slot is lost, and with it some changes. A new snapshot is taken.
    engine.kill()
    is_free = "select count(*) from pg_replication_slots where slot_name = 'shop' and not active"
    engine.wait(lambda: source.sql(is_free) == "1", "the end of its connection")
    source.sql("select pg_drop_replication_slot('shop')")
    source.sql(
        "delete from ticketing.gaps where id = 2; update ticketing.gaps set a = 'new' where id = 1;"
        "insert into ticketing.gaps values (5, 'new')"
    )
    stage.offsets("shop").unlink()
    for topic in engine.outbox.iterdir():
        # As with Kafka, its offsets go on. All earlier files have been delivered.
        (topic / f"{topic.name}+0+0000001000.json").write_text("null\n")
    since = now()
    _declare(project, "gaps", {}, epochs=[since])
    engine.start()
    ddl.land(4)
    for name in REKEYED:
        source_name, table = name.split(".")
        models = [f"{layer}_{source_name}__{table}" for layer in ("cur", "hist")]
        lacking = project.rows(f"(select * from log_{name} where code is null)", ["_op", "id"], "2")
        ddl.without_key[name] = _texts(lacking)
        # With its view, which reads the columns that are the key.
        selected = f"stg_{source_name}__{table}+"
        result = project.dbt("build", "--full-refresh", "--select", selected)
        ddl.messages += [
            item.message or "" for item in result.result.results if item.status == "error"
        ]
        for relation in (f"log_{name}", f"current.{models[0]}", f"history.{models[1]}"):
            stage.tidemark("sql", f"drop table {relation}")
    names = [*(f"{source_name}__adds" for source_name in SOURCES), "ticketing__gaps"]
    # With their views, which have the types.
    models = [f"stg_{name}+" for name in names]
    assert project.dbt("build", "--full-refresh", "--select", *models).success
    _delete_by_hand(ddl, since)
    for name in REKEYED:
        stage.tidemark("replay", "--all", name)
    stage.tidemark("replay")
    stage.tidemark("run")
    ddl.end, ddl.still_refused = ddl.shown(), ddl.dead_letters()
    ddl.look()


def _declare(
    project: Project, name: str, types: Mapping[str, str], key: str | None = None, **more: Any
) -> None:
    """Change the declarations of a table: types of columns, the key, and other settings."""
    for yml in (project.folder / "models").rglob("*__sources.yml"):
        content = yaml.safe_load(yml.read_text())
        for table in content["sources"][0]["tables"]:
            if table["name"] == name:
                known = {column["name"]: column["data_type"] for column in table["columns"]}
                table["columns"] = [
                    {"name": column, "data_type": kind}
                    for column, kind in {**known, **types}.items()
                ]
                table["config"]["meta"]["feed"] |= {**({"key": key} if key else {}), **more}
        yml.write_text(yaml.safe_dump(content, sort_keys=False))
    for model in (project.folder / "models").rglob(f"cur_*__{name}.sql"):
        if key:
            text = model.read_text()
            assert "unique_key=" in text
            model.write_text(text.replace("'id'", f"'{key}'").replace('"id"', f'"{key}"'))


def _delete_by_hand(ddl: Ddl, since: str) -> None:
    """Write deletes of the rows of which nothing is known since the start of the new snapshot."""
    stage = ddl.stage
    topic = stage.project.landing / "shop.ticketing.gaps"
    stage.tidemark("run")
    gone = stage.project.spark.sql(
        "select id from current.cur_ticketing__gaps where cast(id as string) not in "
        f"(select id from log_ticketing.gaps where _op <> 'T' and _changed_at >= '{since}')"
    )
    read = [
        event["payload"]["source"]
        for file in sorted(topic.glob("[!.]*.json"))
        if ".keys." not in file.name
        for event in debezium.documents(file)
        if event and event["payload"]["op"] == "r"
    ]
    (topic / "shop.ticketing.gaps+0+9999999999.json").write_text(
        "".join(
            json.dumps({"op": "d", "before": {"id": row["id"]}, "source": read[-1]}) + "\n"
            for row in gone.collect()
        )
    )


@pytest.mark.parametrize("source", SOURCES)
def test_a_new_column_is_there_and_is_filled_by_updates(ddl: Ddl, source: str) -> None:
    expected = [("1", "new", "7"), ("3", "old", None), ("5", "new", "1")]
    assert ddl.after[f"{source}.adds"] == expected
    assert ddl.end[f"{source}.adds"] == ddl.source["adds"]


def test_an_incremental_snapshot_fills_a_new_column(ddl: Ddl) -> None:
    assert ddl.after["ticketing.fills"] == [("1", "new", "7"), ("3", "old", None)]
    assert ddl.filled == ddl.source["fills"] == [("1", "new", "7"), ("3", "old", "7")]


@pytest.mark.parametrize("source", SOURCES)
def test_a_dropped_column_stays_and_is_null_in_what_changes(ddl: Ddl, source: str) -> None:
    expected = [("1", "new", None), ("3", "old", "b"), ("5", "new", None)]
    assert ddl.after[f"{source}.drops"] == expected
    of_first = [row for row in ddl.versions[source] if row[0] == "1"]
    assert of_first == [("1", "old", "b", "False"), ("1", "new", None, "True")]


@pytest.mark.parametrize("source", SOURCES)
def test_a_renamed_column_is_a_new_one(ddl: Ddl, source: str) -> None:
    expected = [("1", None, "new"), ("3", "old", None), ("5", None, "new")]
    assert ddl.after[f"{source}.renames"] == expected
    assert [(row[0], row[2]) for row in ddl.end[f"{source}.renames"]] == ddl.source["renames"]


@pytest.mark.parametrize("source", SOURCES)
def test_values_of_a_wider_type_wait_for_its_declaration(ddl: Ddl, source: str) -> None:
    refused = [row[2:4] for row in ddl.refused if row[:2] == (source, "widens")]
    assert refused == [("n", "-3000000000"), ("n", "3000000000")]
    assert ddl.end[f"{source}.widens"] == ddl.source["widens"]


def test_a_rebuild_with_another_key_is_refused(ddl: Ddl) -> None:
    # Of a delete, AWS DMS writes all columns that PostgreSQL logs; from Debezium's, landing takes
    # the key.
    assert ddl.without_key == {
        "ticketing.rekeys": [("D", "0"), ("D", "4")],
        "ticketing.rekeys_whole": [("D", "1"), ("D", "2"), ("D", "4")],
        "ddl.rekeys": [("D", "4")],
        "ddl.rekeys_whole": [],
    }
    refused = [message for message in ddl.messages if "do not have the key code" in message]
    assert len(refused) == len(ddl.messages) == 2 * (len(REKEYED) - 1), ddl.messages


@pytest.mark.parametrize("source", SOURCES)
def test_with_a_full_identity_files_that_are_read_again_give_the_new_key(
    ddl: Ddl, source: str
) -> None:
    assert ddl.end[f"{source}.rekeys_whole"] == ddl.source["rekeys_whole"]


def test_without_it_rows_that_were_deleted_before_come_back(ddl: Ddl) -> None:
    for source in SOURCES:
        extra = set(ddl.end[f"{source}.rekeys"]) - set(ddl.source["rekeys"])
        assert extra == {("4", "c4")}
    # Debezium writes a default for the column, which is NOT NULL, so nothing is refused.
    assert ddl.still_refused == [("ddl", "rekeys", "code", None, "key column is NULL")]


def test_rows_that_were_deleted_before_a_new_snapshot_are_deleted_by_hand(ddl: Ddl) -> None:
    assert ddl.end["ticketing.gaps"] == ddl.source["gaps"]


def test_nothing_else_is_refused(ddl: Ddl) -> None:
    assert {row[:2] for row in ddl.refused} == {
        *((source, "widens") for source in SOURCES),
        ("ddl", "rekeys"),
    }
