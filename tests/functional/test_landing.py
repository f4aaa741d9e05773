"""Files into the change log: each once, whatever happens, and nothing lost."""

import gzip
import io
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import SparkSession

from tests.project import Project
from tidemark import formats, status
from tidemark.ingest import books, direct, landing, ledger, log, reading
from tidemark.ingest.landed import Landed, Outcome
from tidemark.ingest.load import Load

pytestmark = pytest.mark.functional

COLUMNS = {"id": "int", "name": "string"}


def land(project: Project) -> list[Landed]:
    """Landing alone, without dbt's models."""
    from tidemark import storage

    feeds = project.feeds()
    with project.here():
        return landing.land(project.spark, feeds, storage.landing_folder(), run_id="test")


def dead_letters(project: Project, source: str) -> list[tuple[Any, ...]]:
    """Of each: the file's name, the position, the column, its value, the reason."""
    columns = ("file", "position", "column", "value", "reason")
    with project.here():
        own = books.of(project.spark)
        found = own.read_table(books.DEAD_LETTER, columns, f"source_name = '{source}'")
    letters = [tuple(each.values()) for each in found.to_pylist()]
    letters.sort(key=lambda each: (each[0], each[1] or 0))
    return [(Path(file).name, *others) for file, *others in letters]


@pytest.mark.slow
@pytest.mark.parametrize("indexed", ["32", "0"], ids=["with_statistics", "without_statistics"])
def test_a_load_is_counted_by_the_statistics_of_files_or_else_by_spark(
    project: Project, indexed: str
) -> None:
    source = f"counted{indexed}"
    project.add(f"{source}.t", COLUMNS, "id")
    (feed,) = project.feeds()
    log.missing(project.spark, [feed])
    log.create(project.spark, feed)
    property = f"delta.dataSkippingNumIndexedCols = {indexed}"
    project.spark.sql(f"alter table {feed.log} set tblproperties ({property})")
    loads = []
    for day, rows in ((1, "I,1,a\nI,2,b\nD,3,\n"), (2, "U,1,c\n")):
        project.land(f"{source}/t/2024010{day}-100000000.csv", rows)
        (landed,) = land(project)
        assert landed.plan
        loads.append(landed.plan.load_id)
    own = books.of(project.spark)
    assert [own.rows_of_load(feed, load) for load in loads] == [3, 1]
    # One file with the rows of both loads.
    project.spark.sql(f"optimize {feed.log}")
    assert [own.rows_of_load(feed, load) for load in (*loads, 99)] == [3, 1, 0]


@dataclass
class Together:
    """A project whose tables land for the first time together; each is a test's own."""

    project: Project
    first: dict[str, Landed]

    def land(self) -> dict[str, Landed]:
        """Land once more; gives what that did with each table."""
        return {landed.feed.name: landed for landed in land(self.project)}


# The tables, with their columns and settings, and their first files: both stand with the tests.
FEEDS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {}
FILES: dict[str, str | bytes] = {}


def test_the_spelling_of_a_path_loses_no_rows_behind_a_server(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As behind a Thrift server, Spark reads the files.
    monkeypatch.setattr("tidemark.storage._Local.place", lambda *_: None)
    for name, path in (("whole", "."), ("slash", "spelled/t/")):
        project.declare(f"{name}.t", COLUMNS, "id", path=path)
        project.land(f"{path}/20240101-100000000.csv", "I,1,a\n")
    landed = {each.feed.name: (each.failure, each.rows) for each in land(project)}
    assert landed == {"slash.t": ("", 1), "whole.t": ("", 2)}


@pytest.fixture(scope="module")
def together(
    module_project: Callable[[], Project], tmp_path_factory: pytest.TempPathFactory
) -> Together:
    project = module_project()
    for name, (columns, settings) in FEEDS.items():
        project.declare(name, columns, "id", **settings)
    for path, content in FILES.items():
        project.land(path, content)
    place = tmp_path_factory.mktemp("elsewhere") / "elsewhere"
    project.spark.sql(f"create schema log_elsewhere location '{place}'")
    put_something_where_a_log_must_be(project)
    together = Together(project, {})
    together.first = together.land()
    return together


FEEDS["elsewhere.t"] = COLUMNS, {}
FILES["elsewhere/t/20240101-100000000.csv"] = "I,1,a\n"


def test_a_log_in_a_schema_with_a_place_of_its_own_is_known_to_landing(together: Together) -> None:
    landed = together.first["elsewhere.t"]
    assert landed.plan
    own = books.of(together.project.spark)
    assert own.newest_load(landed.feed) == landed.plan.load_id
    declared = json.loads(own.properties(landed.feed.log)["tidemark.declared_columns"])
    assert declared == COLUMNS


FEEDS["bad.rows"] = (
    {"id": "int", "day": "date", "at": "timestamp", "price": "decimal(6, 2)", "ok": "boolean"},
    {},
)
FILES["bad/rows/20240101-100000000.csv"] = (
    "I,1,2024-01-31,2024-01-31 10:11:12.123456,1.10,true\n"
    "I,+2.0000000000000000e+00,2024-01-31,2024-01-31 10:11:12,,f\n"
    "I,3,2024,,,\n"
    "I,4,,10:11:12,,\n"
    "I,5,,,1.105,\n"
    "I,6,,,,maybe\n"
    "I,7.5,,,,\n"
    "I,99999999999,,,,\n"
    "I,,,,,\n"
    "Q,8,,,,\n"
    "I,9,,\n"
    "D,10,no date,no time,much,who knows\n"
    "I,11,4713-01-01 00:00:00 BC,,,\n"
)


def test_bad_rows_are_dead_letters_and_the_good_ones_land(together: Together) -> None:
    project, landed = together.project, together.first["bad.rows"]
    assert (landed.rows, landed.rejected, landed.set_aside) == (3, 10, 0)
    file = "20240101-100000000.csv"
    assert dead_letters(project, "bad") == [
        (file, 3, "day", "2024", "not a date"),
        (file, 4, "at", "10:11:12", "not a timestamp"),
        (file, 5, "price", "1.105", "not a decimal(6, 2)"),
        (file, 6, "ok", "maybe", "not a boolean"),
        (file, 7, "id", "7.5", "not a int"),
        (file, 8, "id", "99999999999", "not a int"),
        (file, 9, "id", None, "key column is NULL"),
        (file, 10, "Op", "Q", "unknown operation: expected one of I, U, D"),
        (file, 11, None, None, "4 fields instead of 6"),
        (file, 13, "day", "4713-01-01 00:00:00 BC", "not a date"),
    ]
    raw = project.spark.sql(
        "select raw from tidemark.dead_letter where source_name = 'bad' and position in (3, 11)"
    ).collect()
    assert sorted(row.raw for row in raw) == ["I,3,2024,,,", "I,9,,"]


FEEDS["aside.t"] = COLUMNS, {}
FILES |= {
    "aside/t/20240101-100000000.csv": "I,1,a\n",
    "aside/t/20240101-110000000.csv": "",
    "aside/t/20240101-120000000.csv": b"I,2,caf\xe9\n",
    "aside/t/notes.csv": "what is this\n",
}


def test_a_file_that_cannot_be_taken_is_set_aside_and_the_others_land(together: Together) -> None:
    landed = together.first["aside.t"]
    assert (landed.files, landed.rows, landed.rejected, landed.set_aside) == (2, 1, 1, 2)
    letters = dead_letters(together.project, "aside")
    assert [(file, reason) for file, _, _, _, reason in letters] == [
        ("20240101-110000000.csv", "the file is empty (0 bytes)"),
        ("20240101-120000000.csv", "not utf-8"),
        ("notes.csv", "format dms does not write files with this name"),
    ]
    again = together.land()["aside.t"]
    assert (again.files, again.set_aside) == (0, 0)


ODD_NAMES = ["a b.csv", "ünï.csv", "100%.csv", "k=v.csv", "[x]{1}*?.csv"]
FEEDS["odd.t"] = COLUMNS, {"format": "extract", "max_deleted_share": 1}
FILES |= {f"odd/t/{name}": f"id,name\n{number},x\n" for number, name in enumerate(ODD_NAMES)}


def test_odd_file_names_are_read(together: Together) -> None:
    landed = together.first["odd.t"]
    assert (landed.files, landed.rows) == (5, 5)
    log = together.project.log("odd.t").where("_op = 'R'").select("id", "_file").collect()
    assert {row._file: row.id for row in log} == {
        f"odd/t/{name}": str(number) for number, name in enumerate(ODD_NAMES)
    }


class Crash(BaseException):
    """Stands for kill -9: nothing of the run comes after it."""


CRASHES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {}


def crash(function: Callable[[pytest.MonkeyPatch], None]) -> Callable[[pytest.MonkeyPatch], None]:
    CRASHES[function.__name__] = function
    return function


@pytest.mark.slow
def test_files_of_two_tasks_wait_for_someone_to_confirm_them(project: Project) -> None:
    project.add("two.tasks", COLUMNS, "id", header="all")
    for hour, columns in ((10, "name"), (11, "name,city"), (12, "name")):
        record = ",".join("x" for _ in columns.split(","))
        project.land(
            f"two/tasks/20240101-{hour}0000000.csv", f"Op,id,{columns}\nI,{hour},{record}\n"
        )
    (landed,) = land(project)
    assert (landed.rows, landed.set_aside) == (1, 2)
    with project.here():
        for hour in (11, 12):
            ledger.confirm(project.spark, f"two/tasks/20240101-{hour}0000000.csv", "test")
    (landed,) = land(project)
    assert (landed.rows, landed.set_aside) == (2, 0)


@pytest.fixture
def large(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files of more than 20 bytes count as large, and Spark reads them in splits of 1,000."""
    monkeypatch.setattr(reading, "LARGE", 20)
    names = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
    before = {name: project.spark.conf.get(name) for name in names}
    for name in names:
        project.spark.conf.set(name, "1000")
    yield
    for name, value in before.items():
        project.spark.conf.set(name, str(value))


def test_large_files_come_by_lines_and_are_what_they_are(project: Project, large: None) -> None:
    project.declare("large.rows", COLUMNS, "id")
    rows = [(number, f"a\n{number}\r\n ü" if number % 9 else "") for number in range(1, 400)]
    text = "".join(f'{number},"{name}"\n' for number, name in rows)
    places = {
        "LOAD00000001.csv": text.encode(),
        "p =1+2%20 [ä]/LOAD00000002.csv": b"\xef\xbb\xbf" + text.encode().removesuffix(b"\n"),
        "p2/LOAD00000003.csv.gz": gzip.compress(text.encode()),
        "p3/LOAD00000004.csv": gzip.compress(text.encode()),
        "small/LOAD00000005.csv": b"1,a\n",
        "torn/LOAD00000006.csv": text.encode() + b'400,"',
    }
    for place, content in places.items():
        project.land(f"large/rows/{place}", content)
    table = pa.table(
        {"Op": ["I"] * 399, "id": [row[0] for row in rows], "name": [row[1] for row in rows]}
    )
    parquet = io.BytesIO()
    pq.write_table(table, parquet)
    project.land("large/rows/20240101-100000000.parquet", parquet.getvalue())
    (landed,) = land(project)
    assert landed.rows == 5 * 399 + 1
    assert list(landed.reasons.values()) == ["the file ends inside quotes: it is incomplete"]
    log = project.log("large.rows").where("_position > 0")
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in log.orderBy("_file", "_position").collect():
        assert row["_position"] == len(found.setdefault(row["_file"], [])) + 1
        found[row["_file"]].append((int(row["id"]), row["name"]))
    assert found.pop("large/rows/small/LOAD00000005.csv") == [(1, "a")]
    assert len(found) == 5
    for place, of_file in found.items():
        assert of_file == rows, place


def _stop(*_: object, **__: object) -> None:
    raise Crash


@crash
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing, "_without_spark", _stop)
    monkeypatch.setattr(ledger, "write_finished", _stop)


@crash
def appended_to_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing, "_append_dead_letters", _stop)
    monkeypatch.setattr(ledger, "write_finished", _stop)


@crash
def appended_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "write_finished", _stop)


@pytest.fixture(scope="module")
def crashing(module_project: Callable[[], Project]) -> Project:
    """With a table for each crash."""
    project = module_project()
    for point in CRASHES:
        project.declare(f"crash_{point}.t", COLUMNS, "id")
    return project


@pytest.mark.parametrize("point", CRASHES)
def test_a_run_that_dies_is_made_good_by_the_next(
    point: str, crashing: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, project = f"crash_{point}", crashing
    project.land(f"{source}/t/20240101-100000000.csv", "I,1,a\nI,x,b\nI,2,b\n")
    with monkeypatch.context() as patched:
        CRASHES[point](patched)
        with pytest.raises(Crash):
            land(project)
    project.land(f"{source}/t/20240101-110000000.csv", "D,2,\n")
    land(project)
    assert project.rows(
        f"log_{source}.t", ["id", "_op", "_position"], f"{formats.of_lake().file_column}, _position"
    ) == [
        ("1", "I", 1),
        ("2", "I", 3),
        ("2", "D", 1),
    ]
    assert [row[:3] for row in dead_letters(project, source)] == [
        ("20240101-100000000.csv", 2, "id")
    ]
    assert not any(landed.rows for landed in land(project))


def test_a_retry_reads_its_files_as_they_are_declared_then(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The YAML was mended between the crash and the next run; one file was written anew."""
    project.declare("retry.t", {"id": "int", "price": "int"}, "id")
    project.land("retry/t/20240101-100000000.csv", "I,1,10\nI,2,2.5\nI,3,30\n")
    project.land("retry/t/20240101-110000000.csv", "I,4,40\n")
    with monkeypatch.context() as patched:
        patched.setattr(ledger, "write_finished", _stop)
        with pytest.raises(Crash):
            land(project)
    path = project.folder / "models/staging/retry/_retry__sources.yml"
    declared = yaml.safe_load(path.read_text())
    declared["sources"][0]["tables"][0]["columns"][1]["data_type"] = "decimal(9, 2)"
    path.write_text(yaml.safe_dump(declared))
    project.land("retry/t/20240101-110000000.csv", "I,4,44\nI,5,50\n")
    (landed,) = land(project)
    assert (landed.failure, landed.rows, landed.rejected) == ("", 3, 0)
    log = project.rows("log_retry.t", ["id", "price"], "id, price")
    assert log == [("1", "10"), ("2", "2.5"), ("3", "30"), ("4", "40"), ("4", "44"), ("5", "50")]
    assert dead_letters(project, "retry") == []
    of_table = "tidemark.ledger where source_name = 'retry' and status = 'landed'"
    counted = project.rows(f"{of_table} group by load_id", ["load_id", "sum(rows)"])
    logged = project.rows("log_retry.t group by _load_id", ["_load_id", "count(*)"])
    assert counted == logged


@pytest.mark.slow
def test_no_load_id_is_given_twice_when_the_ledger_is_an_older_one(project: Project) -> None:
    project.add("older.t", COLUMNS, "id")
    project.land("older/t/20240101-100000000.csv", "I,1,a\n")
    land(project)
    restored = project.commits("tidemark.ledger") - 1
    project.land("older/t/20240101-110000000.csv", "I,2,b\nI,x,b\n")
    land(project)
    project.spark.sql(f"restore table tidemark.ledger to version as of {restored}")
    project.land("older/t/20240101-120000000.csv", "I,3,c\n")
    (landed,) = land(project)
    assert (landed.failure, landed.rows, landed.rejected) == ("", 1, 1)
    assert project.rows("log_older.t", ["id"]) == [("1",), ("2",), ("3",)]
    assert [row[:3] for row in dead_letters(project, "older")] == [
        ("20240101-110000000.csv", 2, "id")
    ]
    loads = project.rows("log_older.t", ["_load_id"])
    assert len(set(loads)) == 3
    (again,) = land(project)
    assert not again.is_new


def test_an_append_that_did_not_come_about_fails_its_table(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in ("by_spark", "directly"):
        project.declare(f"lost.{table}", COLUMNS, "id")
        project.land(f"lost/{table}/20240101-100000000.csv", "I,1,a\n")
    land_direct = direct.land

    def by_one_way(load: Load) -> Outcome | None:
        return None if load.feed.table == "by_spark" else land_direct(load)

    with monkeypatch.context() as patched:
        patched.setattr(direct, "land", by_one_way)
        patched.setattr(log, "append", lambda *_: None)
        patched.setattr(books, "append_load", lambda *_: None)
        failures = {landed.feed.table: landed.failure for landed in land(project)}
    for table in ("by_spark", "directly"):
        assert f"`log_lost`.`{table}` has 0 rows of load" in failures[table]
    assert [(landed.failure, landed.rows) for landed in land(project)] == [("", 1), ("", 1)]


FEEDS |= {f"nolog.{table}": (COLUMNS, {}) for table in ("bad", "good")}
FILES |= {f"nolog/{table}/20240101-100000000.csv": "I,1,a\n" for table in ("bad", "good")}


def put_something_where_a_log_must_be(project: Project) -> None:
    project.spark.sql("create schema if not exists log_nolog")
    place = project.spark.sql("describe schema log_nolog").where("info_name = 'Location'")
    folder = Path(place.collect()[0]["info_value"].removeprefix("file:")) / "bad"
    folder.mkdir()
    (folder / "somebody's.txt").write_text("not a table")


def test_a_log_that_cannot_be_created_fails_its_table_alone(together: Together) -> None:
    bad, good = together.first["nolog.bad"], together.first["nolog.good"]
    assert ("bad" in bad.failure, bad.rows) == (True, 0)
    assert (good.failure, good.rows) == ("", 1)


_TIMED = {"timestamp_column": "ts", "lateness": "7 days"}
FEEDS |= {
    "ahead.t": (COLUMNS, _TIMED),
    "ahead.free": (COLUMNS, _TIMED | {"ahead": None}),
    "ahead.x": (COLUMNS, {"format": "extract", "time_in_name": "%Y-%m-%d"}),
}
FILES |= {
    f"ahead/{table}/20240101-100000000.csv": "I,2999-01-01 00:00:00,1,a\n"
    "I,2024-01-01 00:00:00,2,b\n"
    for table in ("t", "free")
}
FILES["ahead/x/2099-01-01.csv"] = "id,name\n1,a\n"


def test_what_is_far_ahead_waits_at_the_door(together: Together) -> None:
    project = together.project
    free, t, x = (together.first[f"ahead.{table}"] for table in ("free", "t", "x"))
    assert (free.rows, t.rows, t.rejected, x.rows, x.set_aside) == (2, 1, 1, 0, 1)
    letters = {row[0]: row[2:] for row in dead_letters(project, "ahead")}
    assert letters["20240101-100000000.csv"] == (
        "ts",
        "2999-01-01 00:00:00",
        "changed more than 1 day after it landed (ahead)",
    )
    assert "its time 2099-01-01 00:00:00 is more than 1 day ahead" in letters["2099-01-01.csv"][2]
    project.land("ahead/t/20240201-100000000.csv", "U,2024-02-01 00:00:00,2,c\n")
    project.land("ahead/free/20240201-100000000.csv", "U,2024-02-01 00:00:00,2,c\n")
    landed = together.land()
    free, t = landed["ahead.free"], landed["ahead.t"]
    assert (t.rows, free.rows, free.rejected) == (1, 0, 1)


POLICIES = ("ignore", "fail")
FEEDS |= {f"vanish_{policy}.t": (COLUMNS, {"missing_files": policy}) for policy in POLICIES}
FILES |= {
    f"vanish_{policy}/t/{name}": text
    for policy in POLICIES
    for name, text in (("LOAD00000001.csv", "1,a\n"), ("20240101-100000000.csv", "I,2,b\n"))
}


def test_files_that_vanish_delete_nothing(together: Together) -> None:
    project = together.project
    away = project.landing.with_name("away")
    for policy in POLICIES:
        (away / policy).mkdir(parents=True)
        for file in (project.landing / f"vanish_{policy}/t").iterdir():
            file.rename(away / policy / file.name)
    landed = together.land()
    for policy in POLICIES:
        failure = landed[f"vanish_{policy}.t"].failure
        assert ("are no longer in the landing folder" in failure) == (policy == "fail")
        project.land(f"vanish_{policy}/t/20240102-100000000.csv", "I,3,c\n")
    landed = together.land()
    for policy, rows in (("fail", 0), ("ignore", 1)):
        assert landed[f"vanish_{policy}.t"].rows == rows
        assert len(project.rows(f"log_vanish_{policy}.t", ["id"])) == 2 + rows

    # They are back, and nothing is to be done: the failure is over.
    def has_failed() -> bool:
        with project.here():
            state = status.gather()
        assert state
        return any(each.failed for each in state.tables if each.feed.name == "vanish_fail.t")

    assert has_failed()
    (project.landing / "vanish_fail/t/20240102-100000000.csv").unlink()
    for file in (away / "fail").iterdir():
        file.rename(project.landing / "vanish_fail/t" / file.name)
    assert not has_failed()


FEEDS |= {f"badlog.{table}": (COLUMNS, {}) for table in ("bad", "good")}
FILES |= {f"badlog/{table}/20240101-100000000.csv": "I,1,a\n" for table in ("bad", "good")}


# The last of them: it stays as it is.
def test_a_log_that_nobody_can_read_fails_its_table_alone(together: Together) -> None:
    for table in ("bad", "good"):
        assert together.first[f"badlog.{table}"].rows == 1
        together.project.land(f"badlog/{table}/20240102-100000000.csv", "I,2,b\n")
    commits = Path(books.place("log_badlog.bad"), "_delta_log")
    for commit in commits.glob("*.json"):
        commit.unlink()
    landed = together.land()
    bad, good = landed["badlog.bad"], landed["badlog.good"]
    assert (bool(bad.failure), bad.rows) == (True, 0)
    assert (good.failure, good.rows) == ("", 1)


def test_what_a_killed_creation_left_is_removed_and_no_table_is(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.conftest import LAKE
    from tidemark.spark import session

    sql, schema = project.spark.sql, LAKE / "warehouse/unborn.db"
    sql("create schema if not exists unborn")
    sql("create table unborn.delta (id int) using delta")
    sql("create table unborn.other using parquet as select 1 as id")
    sql("create table unborn.renamed (id int) using delta")
    (schema / "left" / "_delta_log").mkdir(parents=True)
    (schema / "left" / "part-0.parquet").write_text("not committed")
    # Killed between the first commit and the catalog.
    shutil.copytree(schema / "renamed", schema / "committed")
    # A table that the catalog has lost.
    sql("create table unborn.lost (id int) using delta")
    sql("insert into unborn.lost values (1)")
    shutil.copytree(schema / "lost", schema / "kept")
    sql("alter table unborn.renamed rename to unborn.other_name")
    folders = {folder.name for folder in schema.iterdir()}
    session.remove_unborn_tables(project.spark)
    assert folders - {folder.name for folder in schema.iterdir()} == {"left", "committed"}
    assert [*(LAKE / "left_behind").glob("unborn.left.*/part-0.parquet")]
    sql("create table unborn.left (id int) using delta")
    sql("create table unborn.committed (id int) using delta")
    assert project.rows("unborn.other", ["id"]) == [(1,)]
    assert project.rows("unborn.delta", ["id"]) == project.rows("unborn.other_name", ["id"]) == []
    # On S3 nothing is removed at the start: the creation of the table makes it good.
    shutil.copytree(schema / "delta", schema / "begun")
    session.create_table(
        project.spark, "unborn.begun", "id int", """tblproperties ('a' = '{"b": 1}')"""
    )
    assert project.rows("unborn.begun", ["id"]) == []
    told = sql("show tblproperties unborn.begun").where("key = 'a'").collect()
    assert [row.value for row in told] == ['{"b": 1}']
    # A start after one that found nothing asks the catalog for new folders alone.
    there = shutil.copytree(schema, tmp_path / "lake/warehouse/unborn.db")
    monkeypatch.setenv("TIDEMARK_LAKE", str(tmp_path / "lake"))
    session.remove_unborn_tables(project.spark)
    without_catalog = cast(SparkSession, None)
    session.remove_unborn_tables(without_catalog)
    for name in ("left", "killed"):
        # `left` was dropped, and killed when it was created again.
        shutil.rmtree(there / name, ignore_errors=True)
        shutil.copytree(there / "delta", there / name)
    sql("drop table unborn.left")
    session.remove_unborn_tables(project.spark)
    assert {folder.name for folder in there.iterdir()} & {"left", "killed"} == set()
    session.remove_unborn_tables(without_catalog)


@pytest.mark.slow
def test_the_models_of_a_large_run_are_compiled_as_its_landing_is(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.spark import session

    def is_compiled(spark: SparkSession) -> bool:
        return spark.conf.get("spark.sql.codegen.wholeStage") == "true"

    project.add("sizes.t", COLUMNS, "id", loaded_at="2024-01-01")
    during: list[bool] = []
    append = log.append

    def noted(*given: Any) -> None:
        during.append(is_compiled(project.spark))
        append(*given)

    monkeypatch.setattr(direct, "land", lambda _: None)
    monkeypatch.setattr(log, "append", noted)
    for name, rows in (("1", 3), ("2", 20_000), ("3", 3)):
        text = "".join(f"I,{name}{n},abcdefgh\n" for n in range(rows))
        project.land(f"sizes/t/2024010{name}-100000000.csv", text)
        land(project)
        assert during.pop() == is_compiled(session.fresh()) == (rows > 3)
        assert not is_compiled(project.spark)
