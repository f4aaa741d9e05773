"""What a build knows of a log's changes without Spark, against an independent oracle."""

import random
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tidemark.dbt_plugin import changes, facts

DAY = datetime(2024, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
LOG = pa.schema(
    [("_load_id", pa.int64()), ("_op", pa.string()), ("_is_delete", pa.bool_())]
    + [("_is_initial", pa.bool_()), ("_changed_at", TIME), ("_file_at", TIME)]
    + [(name, pa.string()) for name in ("_sequence", "id", "name", "seq", "nth")]
)


class Change(NamedTuple):
    """A change in the log. `n` stands for its sequence, `at` for its time."""

    load: int
    op: str
    n: int
    at: int
    is_initial: bool = False


class Kind(NamedTuple):
    """An order of changes: the n-th sequence as text in the log, as value in tables; the feed."""

    of_type: str
    in_table: pa.DataType
    text: Callable[[int], str]
    value: Callable[[int], Any]
    settings: dict[str, Any]


def second(n: int) -> datetime:
    return DAY + timedelta(seconds=n)


def kind(of_type: str, in_table: pa.DataType, text: Any, value: Any, **settings: Any) -> Kind:
    return Kind(of_type, in_table, text, value, settings)


TEXT = "s{:09}".format
OF_SEVERAL = pa.struct([("seq", pa.int64()), ("nth", pa.int64())])
OF_FILES = pa.struct([("file_at", TIME)])
KINDS = {
    "bigint": kind("bigint", pa.int64(), str, int),
    "string": kind("string", pa.string(), TEXT, TEXT),
    "timestamp": kind("timestamp", TIME, lambda n: f"{second(n):%F %T}", second),
    "date": kind(
        "date",
        pa.date32(),
        lambda n: f"{DAY + timedelta(n):%F}",
        lambda n: (DAY + timedelta(n)).date(),
    ),
    "placed": kind("string", pa.string(), TEXT, TEXT, is_placed=True, sequence=[]),
    "several": kind(
        "bigint", OF_SEVERAL, str, lambda n: {"seq": n, "nth": 7}, sequence=["seq", "nth"]
    ),
    "files": kind("string", OF_FILES, str, lambda n: {"file_at": second(n)}, sequence=[]),
    # Delta's statistics have 32 characters of a text.
    "long": kind("string", pa.string(), "s{:050}".format, "s{:050}".format),
    "decimal": kind("decimal(10,2)", pa.decimal128(10, 2), str, int),
}


# What makes a change one that is not told of.
ODD: list[dict[str, Any]] = [{"op": "T"}, {"op": "R"}, {"is_initial": True}]


def feed(of: Kind, **more: Any) -> dict[str, Any]:
    types = {"id": "int", "name": "string", "seq": of.of_type, "nth": "bigint"}
    told = {"key": ["id"], "sequence": ["seq"], "is_placed": False, "columns": types}
    return {**told, "logs": ["log"], **of.settings, **more}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(facts, "opened", lambda _, name: DeltaTable(tmp_path / name))
    return tmp_path


def write_log(lake: Path, of: Kind, rows: Iterable[Change], **more: Any) -> None:
    def row(each: Change) -> dict[str, Any]:
        text = of.text(each.n)
        of_load = {"_load_id": each.load, "_file_at": second(each.load)}
        of_change = {"_changed_at": second(each.at), "_is_initial": each.is_initial}
        told = {"_op": each.op, "_is_delete": each.op in "DT", "_sequence": text}
        return {**of_load, **of_change, **told, "id": "1", "seq": text, "nth": "1", **more}

    found = pa.Table.from_pylist([row(each) for each in rows], LOG)
    write_deltalake(lake / "log", found, mode="append", partition_by=["_is_delete"])


def write_table(lake: Path, of: Kind, rows: Iterable[tuple[int, int, int]]) -> None:
    """A table's rows: phase, sequence, time. Rows of an initial load, phase 0, have no sequence."""
    order = pa.struct([("phase", pa.int32()), ("sequence", of.in_table)])
    found = [
        {"_order": {"phase": phase, "sequence": of.value(n) if phase else None}}
        | {"_changed_at": second(at)}
        for phase, n, at in rows
    ]
    schema = pa.schema([("_order", order), ("_changed_at", TIME)])
    write_deltalake(lake / "table", pa.Table.from_pylist(found, schema), mode="overwrite")


def ask(of: Kind, watermark: int = 2, **more: Any) -> Any:
    adapter: Any = SimpleNamespace()
    return changes.new_changes(adapter, feed(of, **more), "table", watermark)


@pytest.mark.parametrize("name", KINDS)
def test_it_tells_only_what_is_so(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    of, chance, told = KINDS[name], random.Random(name), 0
    for case in range(12):
        lake = tmp_path / str(case)
        monkeypatch.setattr(facts, "opened", lambda _, name, lake=lake: DeltaTable(lake / name))
        # Large steps make changes that are in order likely.
        step = chance.choice([2, 2, 9])
        rows = [
            Change(load, chance.choice("IUUD"), n, n + chance.choice([0, 0, 0, -1]))
            for load in (1, 2, 3, 4)
            for n in (load * step + chance.randrange(4) for _ in range(2))
        ]
        if chance.random() < 0.2:
            odd = chance.randrange(len(rows))
            rows[odd] = rows[odd]._replace(**chance.choice(ODD))
        new = [each for each in rows if each.load > 2]
        deletes = [each for each in rows if each.load <= 2 and each.op in "DT"]
        table = [
            (chance.choice([0, 1, 1]), each.n, each.at)
            for each in rows
            if each.load <= 2 and each not in deletes
        ] or [(0, 0, 0)]
        of_files = {each: each.load if name == "files" else each.n for each in rows}
        if name == "files":
            table = [(phase, 2, at) for phase, _, at in table]
        known = max([(phase, n if phase else 0) for phase, n, _ in table])
        known = max([known, *((1, of_files[each]) for each in deletes)])
        known_at = max([at for *_, at in table] + [each.at for each in deletes])
        is_plain = not {"T", "R"} & {each.op for each in new + deletes}
        is_plain &= not any(each.is_initial for each in new + deletes)
        is_late = any((1, of_files[each]) <= known for each in new)
        is_late_or_not_later = is_late or any(each.at <= known_at for each in new)
        for each in (1, 2, 3, 4):
            write_log(lake, of, (row for row in rows if row.load == each))
        write_table(lake, of, table)
        found = ask(of)
        if not is_plain or name == "decimal":
            assert found is None, (case, rows, table)
            continue
        told += 1
        assert found["of_keys"] == len(new)
        if name == "long":
            # It may look late.
            assert found["late"] >= is_late
            assert found["late_or_not_later"] >= is_late_or_not_later
        else:
            assert found["late"] == is_late, (case, rows, table)
            assert found["late_or_not_later"] == is_late_or_not_later, (case, rows, table)
        assert not any(found[each] for each in ("truncates", "new_truncates", "unknown_reloads"))
    assert told > 3 or name == "decimal"


NEW = Change(3, "U", 5, 5)
KNOWN = (1, 4, 4)


def test_without_new_changes_there_are_none(lake: Path) -> None:
    write_log(lake, KINDS["bigint"], [NEW._replace(load=1)])
    write_table(lake, KINDS["bigint"], [KNOWN])
    assert ask(KINDS["bigint"])["of_keys"] == 0


@pytest.mark.parametrize(
    "settings",
    [
        *({"logs": []}, {"logs": ["log", "log"]}, {"feeds": [{}, {}]}),
        *({"table": {"batch": "b"}}, {"epochs": ["2024-01-01"]}),
        # Names and types that the YAML has, and the log or the table does not have yet.
        *({"sequence": ["other"], "columns": {"other": "bigint"}}, {"columns": {"seq": "string"}}),
    ],
)
def test_of_other_feeds_it_tells_nothing(lake: Path, settings: dict[str, Any]) -> None:
    write_log(lake, KINDS["bigint"], [NEW])
    write_table(lake, KINDS["bigint"], [KNOWN])
    assert ask(KINDS["bigint"])["of_keys"] == 1
    assert ask(KINDS["bigint"], **settings) is None


def test_rows_after_a_reload_are_of_a_later_phase(lake: Path) -> None:
    write_log(lake, KINDS["bigint"], [NEW])
    write_table(lake, KINDS["bigint"], [KNOWN, (2, 1, 1)])
    assert ask(KINDS["bigint"]) is None


@pytest.mark.parametrize("text", [None, "", "x", "0x1f", "5.0", " 5"])
def test_a_sequence_that_spark_may_read_in_another_way_is_not_compared(
    lake: Path, text: str | None
) -> None:
    write_log(lake, KINDS["bigint"], [NEW], seq=text)
    write_table(lake, KINDS["bigint"], [KNOWN])
    assert ask(KINDS["bigint"]) is None


def first(key: str | list[str], **types: str) -> tuple[int, int] | None:
    columns = {"id": "int", "name": "string"} | types
    of_key = {"key": [key] if isinstance(key, str) else key, "columns": columns}
    adapter: Any = SimpleNamespace()
    found = changes.first_changes(adapter, feed(KINDS["bigint"], **of_key))
    assert found is None or not any(value for name, value in found.items() if "change" not in name)
    return None if found is None else (found["changes"], found["changed_keys"])


def test_the_keys_of_a_first_build_are_counted(lake: Path) -> None:
    for load, (number, name) in enumerate([("1", "a"), ("1", "b"), ("-2", "b"), ("1", "a")]):
        write_log(lake, KINDS["bigint"], [Change(load, "IUUD"[load], 1, 1)], id=number, name=name)
    assert (first("id"), first("name"), first(["id", "name"])) == ((4, 2), (4, 2), (4, 3))
    # In these types, `1` and `1.0` may be one key.
    assert (first("id", id="decimal(10,2)"), first("id", id="double")) == (None, None)
    write_log(lake, KINDS["bigint"], [NEW], id="01", name="01")
    assert (first("id"), first("name")) == (None, (5, 3))
    write_log(lake, KINDS["bigint"], [NEW], id="2", name=None)
    assert first("name") is None


def test_a_truncate_has_no_key(lake: Path) -> None:
    write_log(lake, KINDS["bigint"], [NEW])
    assert first("id") == (1, 1)
    write_log(lake, KINDS["bigint"], [NEW._replace(op="T")])
    assert first("id") is None


def test_a_log_without_rows_has_no_keys(lake: Path) -> None:
    DeltaTable.create(lake / "log", LOG, partition_by=["_is_delete"])
    assert first("id") == (0, 0)
