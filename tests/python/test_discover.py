"""What the files of a landing folder tell of their tables, without Spark."""

import gzip
import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet
import pytest
import yaml

from tidemark.errors import ConfigError, SetupError
from tidemark.scaffold import add, discover, sampling
from tidemark.scaffold.discover import Table
from tidemark.scaffold.sampling import Column

TIME = "2026-04-01 13:40:19.145400"
NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)
DMS_TIME = pa.field("dms_ts", pa.string(), nullable=False)


class Landing:
    """A landing folder of a test's own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "landing"
        self.project = folder / "project"
        (self.project / "models").mkdir(parents=True)
        self.root.mkdir()

    def land(self, path: str, content: str | bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    def parquet(self, path: str, rows: Sequence[Mapping[str, Any]], *fields: pa.Field) -> None:
        buffer = io.BytesIO()
        pa.parquet.write_table(pa.Table.from_pylist(list(rows), pa.schema(fields)), buffer)
        self.land(path, buffer.getvalue())

    def tables(self, below: str = "") -> dict[str, Table]:
        """The tables that are found, by name; what is wrong with them stands in `todos`."""
        found = discover.survey(self.root, below, {})
        discover.name_tables(found.tables, self.root, [])
        for table in found.tables:
            table.todos = discover.problems(table, "x.yml", {})
        return {table.name: table for table in found.tables}

    def table(self) -> Table:
        """The one table that is found."""
        (table,) = self.tables().values()
        return table

    def left(self) -> dict[str, str]:
        return discover.survey(self.root, "", {}).left


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path)


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-20", "+3"], "bigint"),
        (["00123", "44000"], "string"),
        (["1", "18446744073709551615"], "decimal(38,0)"),
        (["1", "9" * 39], "string"),
        # Money has the same digits behind the point everywhere, and zeros among the last.
        (["12.50", "9.99"], "decimal(18,2)"),
        ([f"{number}.99" for number in range(10)], "decimal(18,2)"),
        (["0.25", "0.75"], "double"),
        (["1.65", "1.8"], "double"),
        (["1.0", "2.5"], "double"),
        (["1.50", "2"], "double"),
        (["12345678901234567890.10"], "decimal(38,2)"),
        (["+2.1804858784530072e+04", "0"], "double"),
        (["true", "FALSE"], "boolean"),
        (["true", "1"], "string"),
        (["Y", "N"], "string"),
        (["2024-02-29", "9999-12-31"], "date"),
        (["2023-02-29"], "string"),
        (["0000-00-00 00:00:00"], "string"),
        (["2024-01-31", "2024-01-31 10:11:12.123456"], "timestamp"),
        (["2024-01-31T10:11:12Z", "2024-01-31 10:11:12+02:00"], "timestamp"),
        (["10:11:12"], "string"),
        (["2024"], "bigint"),
        ([" 1"], "string"),
    ],
)
def test_a_text_s_type_is_the_narrowest_that_loses_nothing(texts: list[str], expected: str) -> None:
    assert sampling.type_of_texts(texts) == expected


@pytest.mark.parametrize("name", ["zip", "ZIP_CODE", "home_phone", "postal_code"])
def test_figures_that_are_no_numbers_stay_text(name: str) -> None:
    assert sampling.type_of_texts(["44000", "83030"], name) == "string"
    assert sampling.type_of_texts(["44000"], "zipped_files") == "bigint"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("int", "bigint", "bigint"),
        ("int", "decimal(9,2)", "decimal(12,2)"),
        ("decimal(38,10)", "decimal(38,2)", "double"),
        ("decimal(9,2)", "decimal(9,4)", "decimal(11,4)"),
        ("bigint", "double", "double"),
        ("date", "timestamp", "timestamp"),
        ("boolean", "bigint", "string"),
        ("date", "bigint", "string"),
    ],
)
def test_files_that_differ_in_a_type_get_one_that_holds_both(
    one: str, other: str, expected: str
) -> None:
    assert sampling.wider(one, other) == expected
    assert sampling.wider(other, one) == expected


def test_a_column_without_values_is_a_string() -> None:
    assert sampling.spark_type("x", [Column([None], is_loose=True)]) == "string"
    # What a file's own schema says counts, whatever the values are.
    assert sampling.spark_type("x", [Column([None], "int"), Column([], "bigint")]) == "bigint"


# --- AWS DMS --------------------------------------------------------------------------------------


def test_a_dms_table_in_parquet_tells_all_but_the_key_s_name(landing: Landing) -> None:
    own = [
        pa.field("id", pa.int64()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("starts_at", pa.timestamp("us", tz="UTC")),
        pa.field("is_sold_out", pa.bool_()),
        pa.field("seats", pa.uint64()),
        pa.field("doors", pa.time32("ms")),
        pa.field("photo", pa.binary()),
    ]
    rows = [{"dms_ts": TIME, "id": number, "starts_at": NOON} for number in (1, 2)]
    landing.parquet("dms/shop/sporting_event/LOAD00000001.parquet", rows, DMS_TIME, *own)
    changes = [{"Op": "U", **rows[0]}, {"Op": "D", "dms_ts": TIME, "id": 2}]
    landing.parquet(
        "dms/shop/sporting_event/2026/04/01/20260401-134120123.parquet",
        changes,
        pa.field("Op", pa.string()),
        DMS_TIME,
        *own,
    )
    table = landing.table()
    assert table.name == "shop.sporting_event"
    assert table.feed == {
        "format": "dms",
        "path": "dms/shop/sporting_event",
        "key": "id",
        "timestamp_column": "dms_ts",
    }
    assert table.columns == {
        "id": "bigint",
        "price": "decimal(9,2)",
        "starts_at": "timestamp",
        "is_sold_out": "boolean",
        "seats": "decimal(20,0)",
        "doors": "string",
        "photo": "binary",
    }
    assert (table.files, table.todos) == (2, [])


@pytest.mark.parametrize(
    ("table", "ids", "key"),
    [
        ("people", {"person_id": [1, 2]}, "person_id"),
        ("policies", {"POLICY_ID": [1, 2]}, "POLICY_ID"),
        ("addresses", {"addressId": [1, 2]}, "addressId"),
        ("movies", {"movie_id": [1, 2], "director_id": [1, 2]}, "movie_id"),
        ("t", {"id": [1, 2], "t_id": [1, 2]}, "id"),
        # A name alone is no key; neither is what is unique by chance.
        ("t", {"id": [1, 1]}, None),
        ("t", {"id": [1, None]}, None),
        ("t", {"id": [1, 1], "t_id": [1, 2]}, "t_id"),
        ("t", {"order_id": [1, 2]}, None),
        ("order_lines", {"order_id": [1, 1], "line": [1, 2]}, None),
    ],
)
def test_a_key_is_told_by_its_name_and_its_values(
    landing: Landing, table: str, ids: dict[str, list[int]], key: str | None
) -> None:
    rows = [dict(zip(ids, values, strict=True)) for values in zip(*ids.values(), strict=True)]
    fields = [pa.field(name, pa.int64()) for name in ids]
    landing.parquet(f"shop/{table}/LOAD00000001.parquet", rows, *fields)
    found = landing.table()
    assert found.key == key
    assert found.todos == ([] if key else ["set the key"])


def test_all_loads_count_for_the_key_and_no_change_may_lack_it(landing: Landing) -> None:
    row = pa.field("id", pa.int64())
    for part in ("a", "b"):
        landing.parquet(f"s/t/{part}1/LOAD00000001.parquet", [{"id": 1}], row)
        landing.parquet(f"s/u/p{ord(part)}/LOAD00000001.parquet", [{"id": ord(part)}], row)
    landing.parquet("s/t/20260401-134120123.parquet", [{"Op": "I", "id": 2}], _op(), row)
    landing.parquet("s/v/20260401-134120123.parquet", [{"Op": "I", "id": 2}], _op(), row)
    landing.parquet("s/v/20260401-134120124.parquet", [{"Op": "D", "id": None}], _op(), row)
    found = landing.tables()
    # Folders of a parallel load are parts of the table around them, whatever their names.
    assert {name: (table.files, table.key) for name, table in found.items()} == {
        "s.t": (3, None),
        "s.u": (2, "id"),
        "s.v": (2, None),
    }


def _op() -> pa.Field:
    return pa.field("Op", pa.string())


def test_a_first_column_of_times_that_is_not_the_task_s_stays(landing: Landing) -> None:
    own = pa.field("at", pa.timestamp("us", tz="UTC"))
    landing.parquet("s/t/LOAD00000001.parquet", [{"at": NOON, "id": 1}], own, _int("id"))
    assert list(landing.table().columns) == ["at", "id"]


def _int(name: str) -> pa.Field:
    return pa.field(name, pa.int64())


@pytest.mark.parametrize(
    ("load", "changes", "settings", "columns"),
    [
        # The full load has a header, the changes have none.
        ("id,name\n1,a\n2,b\n", "U,1,c\n", {"header": "load"}, ["id", "name"]),
        ("id,name\n1,a\n2,b\n", "Op,id,name\nU,1,c\n", {"header": "all"}, ["id", "name"]),
        (
            "Op|id|name\nI|1|a\n",
            "Op|id|name\n",
            {"header": "all", "delimiter": "|"},
            ["id", "name"],
        ),
        ("id,name\n1,a\n2,b\n", None, {"header": "all"}, ["id", "name"]),
        # No names at all: a person must give them.
        ("1,a\n2,b\n", "U,1,c\nD,2,\n", {}, ["column_1", "column_2"]),
        ("I,1,a\nI,2,b\n", "U,1,c\n", {"op_in_load": True}, ["column_1", "column_2"]),
        ("I,1,a\nI,2,b\n", None, {"op_in_load": True}, ["column_1", "column_2"]),
        ("1;a,b\n2;c,d,e\n", "U;1;c\n", {"delimiter": ";"}, ["column_1", "column_2"]),
        ("1,a\n2,b\n", "3,c\n", {"op_in_changes": False}, ["column_1", "column_2"]),
        (
            f"1,{TIME}\n",
            f"U,{TIME},1,{TIME}\n",
            {},
            ["column_1", "column_2", "column_3"],
        ),
        (
            f"ts,id,BI_id\n{TIME},1,\n{TIME},2,\n",
            f"Op,ts,id,BI_id\nU,{TIME},3,1\n",
            {"header": "all", "timestamp_column": "ts", "before_image_prefix": "BI_"},
            ["id"],
        ),
        (
            "id,seq\n1,\n",
            "Op,id,seq\nU,1,20210915031230320000000000000000041\n",
            {"header": "all", "sequence": "seq", "exclude_columns": "seq"},
            ["id", "seq"],
        ),
    ],
)
def test_the_csv_of_dms_tells_its_dialect(
    landing: Landing,
    load: str,
    changes: str | None,
    settings: dict[str, Any],
    columns: list[str],
) -> None:
    landing.land("s/t/LOAD00000001.csv", load)
    if changes is not None:
        landing.land("s/t/20260401-134120123.csv", changes)
    table = landing.table()
    assert table.settings == settings
    assert list(table.columns) == columns
    has_names = columns[0] != "column_1"
    assert (table.key == "id") is has_names
    assert bool(table.todos) is not has_names


def test_columns_without_names_are_counted(landing: Landing) -> None:
    landing.land("s/t/LOAD00000001.csv", "1,Ann,12.50\n2,Bob,3.00\n")
    table = landing.table()
    assert table.columns == {
        "column_1": "bigint",
        "column_2": "string",
        "column_3": "decimal(18,2)",
    }
    assert table.todos == [
        "its files have no header: set names and types of the 3 columns, in this order",
        "set the key",
    ]


def test_one_slip_among_numbers_is_pointed_out(landing: Landing) -> None:
    numbers = "".join(f"{number},{number}\n" for number in range(20))
    landing.land("s/t/t.csv", f"id,worth\n{numbers}20,1.6 million\n")
    table = landing.table()
    assert table.columns == {"id": "bigint", "worth": "string"}
    assert table.hints == ["worth is a string because of 1.6 million; the rest are numbers"]


@pytest.mark.parametrize("at", ["dms/txn", "dms/cdc", "dms/cdc/2020/11/17", "cdc"])
def test_transaction_files_belong_to_the_tables_that_they_name(landing: Landing, at: str) -> None:
    landing.land("dms/hr/Jobs/LOAD00000001.csv", "id,name\n1,a\n")
    landing.land(f"{at}/CDC_TXN-20201117153046033.csv", "I,Jobs,hr,13,Dan\nU,gone,hr,1\n")
    found = discover.survey(landing.root, "", {})
    (table,) = found.tables
    folder = at.removesuffix("/2020/11/17")
    assert table.settings["transactions_path"] == folder
    assert table.settings["source_table"] == "hr.Jobs"
    assert found.left == {folder: "it has changes of tables without a full load here: hr.gone"}


def test_transaction_files_belong_to_the_tables_of_their_region(landing: Landing) -> None:
    for region in ("eu", "us"):
        landing.land(f"{region}/shop/orders/LOAD00000001.csv", "id,name\n1,a\n")
    landing.land("eu/cdc/CDC_TXN-20201117153046033.csv", "I,orders,shop,13,Dan\n")
    landing.land("all/CDC_TXN-20201117153046033.csv", "I,orders,shop,13,Dan\n")
    found = discover.survey(landing.root, "", {})
    places = {table.path: table.settings.get("transactions_path") for table in found.tables}
    assert places == {"eu/shop/orders": "eu/cdc", "us/shop/orders": None}
    assert found.left == {
        "all": "it has changes of a table in several folders: eu/shop/orders, us/shop/orders"
    }


# --- Debezium -------------------------------------------------------------------------------------


def event(op: str, before: Any, after: Any, **source: Any) -> str:
    about = {"connector": "postgresql", "schema": "inventory", "table": "orders", **source}
    return json.dumps({"op": op, "before": before, "after": after, "source": about}) + "\n"


def test_envelopes_are_debezium_s_and_their_topic_names_the_table(landing: Landing) -> None:
    landing.land(
        "topics/pg.inventory.orders/partition=0/pg.inventory.orders+0+0000000000.json",
        event("r", None, {"id": 1, "note": None}, lsn=5)
        + event("r", None, {"id": 2, "note": "x"}, lsn=5)
        + event("u", None, {"id": 2, "note": "y"}, lsn=6)
        + event("d", {"id": 2, "note": ""}, None, lsn=7)
        + "null\n",
    )
    table = landing.table()
    assert table.name == "inventory.orders"
    assert table.feed == {"format": "debezium", "path": "topics/pg.inventory.orders", "key": "id"}
    assert table.columns == {"id": "bigint", "note": "string"}
    assert table.todos == []


def test_records_with_a_schema_tell_their_types(landing: Landing) -> None:
    decimal = {"scale": "2", "connect.decimal.precision": "10"}
    wide = {"scale": "30", "connect.decimal.precision": "65"}
    connect, debezium = "org.apache.kafka.connect.data", "io.debezium.time"
    fields = [
        {"field": "id", "type": "int32"},
        {"field": "price", "type": "bytes", "name": f"{connect}.Decimal", "parameters": decimal},
        {"field": "wide", "type": "bytes", "name": f"{connect}.Decimal", "parameters": wide},
        {"field": "day", "type": "int32", "name": f"{debezium}.Date"},
        {"field": "at", "type": "int64", "name": f"{debezium}.MicroTimestamp"},
        {"field": "zoned", "type": "string", "name": f"{debezium}.ZonedTimestamp"},
        {"field": "opens", "type": "int64", "name": f"{debezium}.MicroTime"},
        {"field": "closes", "type": "int32", "name": f"{connect}.Time"},
        {"field": "tags", "type": "array"},
        {"field": "__op", "type": "string"},
        {"field": "__lsn", "type": "int64"},
    ]
    row = {"id": 1, "price": "EtZP", "day": 19439, "at": 5, "zoned": "x", "tags": []}
    row |= {"opens": 36_000_000_000, "closes": 64_800_000, "wide": "AA=="}
    record = {
        "schema": {"type": "struct", "fields": fields},
        "payload": {**row, "__op": "c", "__lsn": 5},
    }
    landing.land("a/t/x.json", json.dumps(record))
    table = landing.table()
    assert (table.format, table.name, table.hints) == ("debezium", "a.t", [])
    assert table.columns == {
        "id": "int",
        "price": "decimal(10,2)",
        # Spark's decimals have 38 digits.
        "wide": "string",
        "day": "date",
        "at": "timestamp_ntz",
        "zoned": "timestamp",
        # Landing writes 10:00:00, not the number.
        "opens": "string",
        "closes": "string",
        "tags": "string",
    }


def keys(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("wrapped", [True, False])
def test_the_messages_keys_beside_a_file_tell_the_key(landing: Landing, wrapped: bool) -> None:
    rows: list[dict[str, Any]] = [{"order_id": 1, "line": 1}, {"order_id": 1, "line": 2}]
    of_key = [{"schema": {"type": "struct"}, "payload": row} for row in rows] if wrapped else rows
    name = "topics/pg.shop.lines/partition=0/pg.shop.lines+0+0000000000"
    landing.land(f"{name}.keys.json", keys(*of_key))
    # `id` would be the key by its name, but no key of the database.
    changes = [event("c", None, row | {"id": row["line"]}, lsn=5) for row in rows]
    landing.land(f"{name}.json", "".join(changes))
    table = landing.table()
    assert table.key == ["order_id", "line"]
    assert (table.files, table.todos) == (1, [])


@pytest.mark.parametrize(
    "of_key", ['{"other": 1}\n', "1\n", "null\n", "", "{", '{"schema": 1, "payload": null}\n', "[]"]
)
def test_keys_that_are_no_columns_tell_nothing(landing: Landing, of_key: str) -> None:
    landing.land("s/lines/a+0+0.keys.json", of_key)
    landing.land("s/lines/a+0+0.json", event("c", None, {"line": 1}, lsn=5))
    assert landing.table().key is None


def test_iso_dates_are_dates(landing: Landing) -> None:
    """What Debezium writes with time.precision.mode=isostring."""
    row = {"id": 1, "born": "1815-12-10Z", "at": "2024-01-31T10:00:00Z", "free": "2024-01-31Z"}
    rows = [row, {**row, "id": 2, "born": None, "free": "2024-01-31Z?"}]
    landing.land("s/t/a+0+0.json", "".join(event("r", None, row, lsn=5) for row in rows))
    columns = landing.table().columns
    assert columns == {"id": "bigint", "born": "date", "at": "timestamp", "free": "string"}


def test_flattened_records_without_a_place_are_ordered_by_their_offset(landing: Landing) -> None:
    record = json.dumps({"id": 1, "cdc_op": "c", "cdc_source_ts_ms": 5}) + "\n"
    landing.land("s/a/x.jsonl", record)
    landing.land("s/pg.s.b/pg.s.b-0-100", record)
    found = landing.tables()
    assert found["s.a"].settings == {"field_prefix": "cdc_"}
    assert "have no position" in found["s.a"].todos[0]
    assert found["pg_s.b"].settings == {"field_prefix": "cdc_", "sequence": "offset"}
    assert found["pg_s.b"].todos == []


def test_events_of_several_tables_need_a_person(landing: Landing) -> None:
    events = event("c", None, {"id": 1}, lsn=1) + event("c", None, {"id": 1}, lsn=2, table="lines")
    landing.land("s/all/x.json", events)
    assert landing.table().todos[0] == (
        "it has events of several tables: inventory.lines, inventory.orders"
    )


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_avro_carries_its_types(landing: Landing, codec: str) -> None:
    fields = [
        {"name": "id", "type": "int"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        },
        {
            "name": "address",
            "type": {
                "type": "record",
                "name": "address",
                "fields": [{"name": "zip", "type": "string"}],
            },
        },
    ]
    row = {"id": 1, "at": NOON, "price": Decimal("1.10"), "address": {"zip": "1"}}
    buffer = io.BytesIO()
    schema = {"type": "record", "name": "row", "fields": fields}
    fastavro.writer(buffer, schema, [row, {**row, "id": 2}], codec=codec)
    landing.land("s/t/x.avro", buffer.getvalue())
    table = landing.table()
    assert (table.format, table.key) == ("extract", "id")
    assert table.columns == {
        "id": "int",
        "at": "timestamp",
        "price": "decimal(10,2)",
        "address_zip": "string",
    }


def test_messages_without_rows_are_no_table(landing: Landing) -> None:
    landing.land("k/heartbeat/h+0+0.json", '{"ts_ms": 1}')
    ends = '{"status": "END", "id": "571:5", "ts_ms": 1, "event_count": 2}'
    landing.land("k/transaction/t+0+0.json", ends)
    landing.land("k/dms/x.json", '{"data": {"id": 1}, "metadata": {"record-type": "data"}}')
    reasons = landing.left()
    assert reasons["k/heartbeat"].startswith("its messages contain no rows")
    assert reasons["k/transaction"].startswith("its messages contain no rows")
    assert reasons["k/dms"] == "it is AWS DMS's JSON for Kinesis or Kafka, which is not supported"


# --- extracts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.json", "t.jsonl.gz", "t.ndjson"])
def test_an_extract_in_text(landing: Landing, name: str) -> None:
    if "csv" in name:
        text = "id,name,born,tall,vip\n1,Ann,2000-01-31,1.65,true\n2,,,1.8,\n"
    else:
        rows: list[dict[str, Any]] = [
            {"id": 1, "name": "Ann", "born": "2000-01-31", "tall": 1.65, "vip": True},
            {"id": 2, "tall": 1.8},
        ]
        text = json.dumps(rows) if name == "t.json" else "".join(map(json.dumps, rows))
    landing.land(f"s/t/{name}", gzip.compress(text.encode()) if name[-2:] == "gz" else text)
    table = landing.table()
    assert table.feed == {"format": "extract", "path": "s/t", "key": "id"}
    assert table.columns == {
        "id": "bigint",
        "name": "string",
        "born": "date",
        "tall": "double",
        "vip": "boolean",
    }


def test_a_status_alone_makes_no_transaction_marker(landing: Landing) -> None:
    landing.land("s/t/a.json", '{"id": 1, "status": "END"}')
    assert landing.table().format == "extract"


def test_documents_are_flattened_as_landing_does(landing: Landing) -> None:
    documents = [
        {
            "_id": {"$oid": "a"},
            "customer_id": {"$numberLong": "7"},
            "address": {"city": "Bern", "geo": {"lat": 1.5}},
            "tags": ["x"],
            "code": "123",
            "at": {"$date": "2024-01-01T00:00:00Z"},
            "order id": 5,
            "Total (EUR)": "x",
            "__v": 0,
        },
        {"_id": {"$oid": "b"}, "customer_id": {"$numberLong": "8"}, "address": None},
    ]
    landing.land("shop/customers/all.json", json.dumps(documents))
    table = landing.table()
    assert (table.format, table.key) == ("extract", "id")
    assert table.columns == {
        "id": "string",
        "customer_id": "bigint",
        "address_city": "string",
        "address_geo_lat": "double",
        "tags": "string",
        "code": "string",
        "at": "timestamp",
        "order_id": "bigint",
        "total_eur": "string",
        "v": "bigint",
    }


@pytest.mark.parametrize(
    ("files", "settings", "todo"),
    [
        (["t_2024-01-30.csv", "t_2024-01-31.csv"], {"time_in_name": "%Y-%m-%d"}, None),
        (["20240131T101112/t.csv"], {"time_in_name": "%Y%m%dT%H%M%S"}, None),
        (["2024/01/30/t.csv", "2024/01/31/t.csv"], {"time_in_name": "%Y/%m/%d"}, None),
        (
            ["2024-01-30/part-0.csv", "2024-01-30/part-1.csv", "2024-01-31/part-0.csv"],
            {"time_in_name": "%Y-%m-%d", "extract_is": "folder"},
            None,
        ),
        (
            ["load=20240131/part-0.csv", "load=20240131/_SUCCESS"],
            {"time_in_name": "%Y%m%d", "extract_is": "folder", "complete_marker": "_SUCCESS"},
            None,
        ),
        (["a_2024-01-30.csv", "b_2024-01-30.csv"], {"time_in_name": "%Y-%m-%d"}, "same time"),
        (["t.csv", "u.csv"], {}, None),
        (["part-00000.csv", "part-00001.csv"], {}, "looks like part"),
        (["region=eu/t.csv", "region=us/t.csv"], {}, "looks like part"),
        # Landing reads the last digits of this form, which are no time.
        (["20240130/part-12345678.csv", "20240131/part-12345679.csv"], {}, "looks like part"),
    ],
)
def test_the_time_of_an_extract_stands_in_its_path(
    landing: Landing, files: list[str], settings: dict[str, str], todo: str | None
) -> None:
    for file in files:
        landing.land(f"s/t/{file}", "" if "_SUCCESS" in file else "id,name\n1,a\n")
    table = landing.table()
    assert table.settings == settings
    if todo:
        assert todo in table.todos[0]
    else:
        assert not table.todos


def test_what_could_delete_rows_by_mistake_needs_a_person(landing: Landing) -> None:
    landing.land("s/changes_only/a.csv", "id,rec_source_status\n1,I\n2,D\n")
    landing.land("s/two_tables/a.csv", "id,name,born\n1,Ann,2000-01-01\n")
    landing.land("s/two_tables/b.csv", "sku,price,stock\n1,2.50,3\n")
    landing.land("s/latin/a.csv", "id,name\n1,Väster\n".encode("latin-1"))
    landing.land("s/nameless/a.csv", "1,Ann\n2,Bob\n")
    todos = {name: table.todos[0] for name, table in landing.tables().items()}
    assert "set status_column: rec_source_status" in todos["s.changes_only"]
    assert "they may belong to several tables" in todos["s.two_tables"]
    assert "not UTF-8" in todos["s.latin"]
    assert "no header: set names and types of the 2 columns" in todos["s.nameless"]


def test_names_that_cannot_be_columns_are_left_to_landing(landing: Landing) -> None:
    landing.land("s/t/a.csv", "id|ID|order id|2024|valid_from\n1|1|1|1|1\n")
    landing.parquet("s/u/a.parquet", [{"id": 1, "Id": 2}], _int("id"), _int("Id"))
    tables = landing.tables()
    assert tables["s.t"].columns == {"id": "bigint", "order_id": "bigint"}
    assert tables["s.t"].hints == [
        "ID, 2024, valid_from: cannot be declared under this name; landing adds it under another"
    ]
    assert tables["s.u"].columns == {"id": "bigint"}


def test_letters_outside_a_z_may_be_in_names(landing: Landing) -> None:
    landing.land("s/t/a.csv", "größe,Straße,naïve text\n1,2,x\n")
    columns = landing.tables()["s.t"].columns
    assert columns == {"größe": "bigint", "Straße": "bigint", "naïve_text": "string"}


def test_a_large_file_is_read_at_its_beginning_only(landing: Landing) -> None:
    rows = "".join(f'{number},"line\n{"x" * 100}"\n' for number in range(20_000))
    landing.land("s/t/a.csv", f"id,text\n{rows}999999,not a number,too many\n")
    assert len(rows) > 2 * sampling.TEXT_BYTES
    table = landing.table()
    assert (table.columns, table.key) == ({"id": "bigint", "text": "string"}, "id")


def test_a_large_array_of_documents_is_read_at_its_beginning_only(landing: Landing) -> None:
    documents = [{"id": number, "text": "x" * 1_000} for number in range(2_000)]
    landing.land("s/t/a.json", json.dumps(documents, indent=1))
    table = landing.table()
    assert (table.columns, table.key) == ({"id": "bigint", "text": "string"}, "id")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b'{"a":' * 5_000),
        ("a.json", b'{"at": {"$date": {"$numberLong": "x"}}}'),
        ("a.json", b"[1, null, {}]"),
        ("a.csv", b'"'),
        ("a.csv", b"\x00\x01"),
        ("a.csv.gz", gzip.compress(b"id\n1\n", mtime=0)[:12]),
        ("LOAD00000001.csv", gzip.compress(b"id\n" * 9_000, mtime=0)[:-20] + b"\x00" * 20),
        ("a.avro", b"Obj\x01" + b"\x00" * 40),
        ("a.parquet", b"PAR1PAR1"),
        ("t+0+0.json", b'{"op": "c", "source": {"lsn": "x"}, "after": {"id": [1]}}'),
        ("t-0-0", b'{"schema": null, "payload": null}'),
    ],
)
def test_a_file_of_any_content_stops_nobody(landing: Landing, name: str, content: bytes) -> None:
    landing.land(f"s/t/{name}", content)
    landing.land("s/u/a.csv", "id\n1\n")
    assert "s.u" in landing.tables()


# --- folders and names ----------------------------------------------------------------------------


def test_folders_name_source_and_table(landing: Landing) -> None:
    for folder in (
        "people",
        "crm/people",
        "eu/shop/Orders",
        "us/shop/orders",
        "a/2nd list",
        "a/日本",
    ):
        landing.land(f"{folder}/2024/01/x.csv", "id,name\n1,a\n")
    assert {name: table.path for name, table in landing.tables().items()} == {
        "landing.people": "people",
        "crm.people": "crm/people",
        "eu_shop.orders": "eu/shop/Orders",
        "us_shop.orders": "us/shop/orders",
        "a.table_2nd_list": "a/2nd list",
        "a.table": "a/日本",
    }
    assert list(landing.tables("crm")) == ["crm.people"]


def test_what_is_no_table_is_named_with_the_reason(landing: Landing) -> None:
    landing.land("loose.csv", "id\n1\n")
    landing.land("shop/notes.csv", "id\n1\n")
    landing.land("shop/orders/a.csv", "id\n1\n")
    landing.land("2024-01-30/crm/people/a.csv", "id\n1\n")
    landing.land("2024-01-31/crm/people/a.csv", "id\n1\n")
    landing.land("bad/parquet/a.parquet", "no Parquet")
    landing.land("bad/empty/LOAD00000001.csv", "")
    landing.land("bad/words/a.txt", "hello")
    landing.land("bad/{{ jinja }}/a.csv", "id\n1\n")
    landing.land("bad/line\nend/a.csv", "id\n1\n")
    landing.land("_tmp/t/a.csv", "id\n1\n")
    landing.land("awsdms_status/a.csv", "id\n1\n")
    assert list(landing.tables()) == ["shop.orders"]
    reasons = landing.left()
    assert set(reasons) == {
        "loose.csv",
        "shop",
        "2024-01-30/crm/people",
        "bad/parquet",
        "bad/empty",
        "bad/words",
        "bad/{{ jinja }}",
        "bad/line\nend",
    }
    assert reasons["bad/parquet"].endswith("a.parquet: not a Parquet file")
    assert "Jinja" in reasons["bad/{{ jinja }}"]


def test_a_folder_that_is_not_there_is_said_in_a_sentence(landing: Landing) -> None:
    with pytest.raises(ConfigError, match=r"There are no files below .*/landing. Put the files"):
        landing.tables()
    with pytest.raises(ConfigError, match=r"There is no folder shop below the landing folder"):
        landing.tables("shop")
    with pytest.raises(ConfigError, match=r"There is no folder \.\. below the landing folder"):
        landing.tables("..")
    with pytest.raises(SetupError, match=r"The landing folder .*/none does not exist"):
        discover.survey(landing.root / "none", "", {})


# --- YAML -----------------------------------------------------------------------------------------


def test_what_a_person_must_decide_switches_a_table_off(landing: Landing) -> None:
    landing.parquet("s/t/LOAD00000001.parquet", [{"a": 1, "d": date(2024, 1, 31)}], _int("a"), _d())
    landing.land("s/u/x.csv", "id,name\n1,a\n")
    added = add.discovered(landing.project, landing.root)
    (file,) = added.written
    assert file == landing.project / "models/staging/s/_s__sources.yml"
    text = file.read_text()
    assert "          # TODO: set the key, then remove enabled: false\n" in text
    off, on = yaml.safe_load(text)["sources"][0]["tables"]
    assert off["config"]["enabled"] is False
    assert off["config"]["meta"]["feed"]["key"] == []
    assert "enabled" not in on["config"]
    assert [column["name"] for column in off["columns"]] == ["a", "d"]
    assert add.told(landing.project, added) == [
        "table    format      files    columns  key",
        "s.t      dms             1          2  TODO",
        "s.u      extract         1          2  id",
        "",
        "Wrote models/staging/s/_s__sources.yml",
        "These tables are disabled until you resolve the TODO in the YAML:",
        "  s.t: set the key",
        "Next: check columns and types in the YAML, then: tidemark add s; tidemark run",
    ]


def _d() -> pa.Field:
    return pa.field("d", pa.date32())


def test_what_is_declared_stays_and_new_tables_come_behind_it(landing: Landing) -> None:
    landing.land("s/t/x.csv", "id\n1\n")
    add.discovered(landing.project, landing.root)
    file = landing.project / "models/staging/s/_s__sources.yml"
    mine = file.read_text().replace("description: ''", "description: Mine.") + "# mine\n"
    file.write_text(mine)
    landing.land("s/u/x.csv", "id\n1\n")
    added = add.discovered(landing.project, landing.root)
    assert file.read_text().startswith(mine)
    assert [table.name for table, _ in added.tables] == ["s.u"]
    assert add.told(landing.project, added)[3] == (
        "s/t belongs to s.t, already declared in models/staging/s/_s__sources.yml: unchanged"
    )
    again = add.discovered(landing.project, landing.root)
    assert (again.tables, again.written) == ([], [])
    assert add.told(landing.project, again)[-1] == "No new tables."


def test_a_declared_name_of_other_files_is_not_taken(landing: Landing) -> None:
    file = landing.project / "models/staging/s/_s__sources.yml"
    file.parent.mkdir(parents=True)
    file.write_text(
        "sources:\n  - name: s\n    config: {meta: {feed: {format: dms, strict: perhaps}}}\n"
        "    tables:\n      - name: t\n        config: {meta: {feed: {path: elsewhere, key: a}}}\n"
    )
    landing.land("x/s/t/x.csv", "id\n1\n")
    landing.land("x/s/u/x.csv", "id\n1\n")
    added = add.discovered(landing.project, landing.root)
    assert [table.name for table, _ in added.tables] == ["x_s.t", "s.u"]


def test_what_the_files_tell_goes_before_what_the_source_says_for_all(landing: Landing) -> None:
    file = landing.project / "models/staging/s/_s__sources.yml"
    file.parent.mkdir(parents=True)
    file.write_text(
        "sources:\n  - name: s\n    meta: {feed: {delimiter: ';', header: load, format: dms}}\n"
        "    tables:\n      - name: t\n        config: {meta: {feed: {key: a}}}\n"
    )
    landing.land("s/u/x.csv", "id,name\n1,a\n")
    add.discovered(landing.project, landing.root)
    *_, table = add.declared(landing.project)
    assert table.feed["format"] == "extract"
    assert (table.feed["delimiter"], table.feed["header"]) == (",", "all")


def test_a_name_of_a_file_cannot_leave_its_comment(landing: Landing) -> None:
    landing.land("s/t/part-0\n          evil: true\u2028x: y.csv", "id\n1\n")
    landing.land("s/t/part-1.csv", "id\n1\n")
    (file,) = add.discovered(landing.project, landing.root).written
    (table,) = yaml.safe_load(file.read_text())["sources"][0]["tables"]
    assert set(table["config"]) == {"enabled", "meta"}


def test_models_are_written_for_declared_tables(landing: Landing) -> None:
    for table in ("t", "u"):
        landing.land(f"s/{table}/x.csv", "id\n1\n")
    landing.land("s/off/x.csv", "a\n1\n")
    add.discovered(landing.project, landing.root)
    names = [file.stem for file in add.write_models(landing.project, ["s.t"])]
    described = ["_s__staging", "_s__current", "_s__history"]
    assert names == ["stg_s__t", "cur_s__t", "hist_s__t", *described]
    # Of a source: those that have no model at all.
    names = [file.stem for file in add.write_models(landing.project, ["s"])]
    assert names == ["stg_s__u", "cur_s__u", "hist_s__u", *described]
    file = landing.project / "models/history/s/_s__history.yml"
    models = yaml.safe_load(file.read_text())["models"]
    assert [model["name"] for model in models] == ["hist_s__t", "hist_s__u"]
    assert models[0]["columns"][0] == {
        "name": "version_key",
        "description": '{{ doc("version_key") }}',
    }
    assert add.write_models(landing.project, ["s"]) == []
    for name, message in {
        "s.t": "stg_s__t.sql already exists. Nothing was written",
        "s.off": "s.off is disabled in models/staging/s/_s__sources.yml",
        "s.x": "s.x is not declared",
        "x": "x is not declared",
    }.items():
        with pytest.raises(ConfigError, match=message):
            add.write_models(landing.project, [name])


def test_a_model_is_described_once(landing: Landing) -> None:
    landing.land("s/t/x.csv", "id\n1\n")
    add.discovered(landing.project, landing.root)
    mine = landing.project / "models/s.yml"
    mine.write_text("models:\n  - name: cur_s__t\n    description: Mine.\n")
    names = [file.stem for file in add.write_models(landing.project, ["s.t"])]
    assert names[3:] == ["_s__staging", "_s__history"]


def test_what_describes_models_in_another_style_is_left_alone(landing: Landing) -> None:
    landing.land("s/t/x.csv", "id\n1\n")
    add.discovered(landing.project, landing.root)
    file = landing.project / "models/current/s/_s__current.yml"
    file.parent.mkdir(parents=True)
    file.write_text("models: [{name: other}]\n")
    with pytest.raises(ConfigError, match="_s__current.yml: write models in block style"):
        add.write_models(landing.project, ["s.t"])
    assert file.read_text() == "models: [{name: other}]\n"
    assert not (landing.project / "models/staging/s/stg_s__t.sql").exists()


def test_a_table_that_is_added_by_hand_is_sampled_alike(landing: Landing) -> None:
    landing.land("x/y/LOAD00000001.csv", "id;sum\n1;1.50\n")
    new = add.sampled(landing.root, "s", "t", {"key": "id, sum", "path": "x/y"})
    assert new.feed == {
        "format": "dms",
        "path": "x/y",
        "key": ["id", "sum"],
        "delimiter": ";",
        "header": "all",
    }
    assert new.columns == {"id": "bigint", "sum": "decimal(18,2)"}
    landing.land("x/z/z.csv", "id^sum\n1^2\n")
    given = {"key": "id", "path": "x/z", "format": "extract", "delimiter": "^", "header": "all"}
    new = add.sampled(landing.root, "s", "t", given)
    assert (list(new.columns), new.feed) == (["id", "sum"], given)
    given = {"key": "a", "columns": "a int, b decimal(9, 2)"}
    assert add.sampled(landing.root, "s", "t", given).columns == {"a": "int", "b": "decimal(9, 2)"}
    for given, message in (
        ({"key": "id"}, "There are no files below .*/s/t. Put one there"),
        ({"path": "x/y"}, "Set the key of s.t"),
        ({"key": "a", "columns": "a"}, "must have a name and a type each"),
        ({"key": "a", "path": "../project"}, "below the landing folder"),
    ):
        with pytest.raises(ConfigError, match=message):
            add.sampled(landing.root, "s", "t", given)


def test_columns_that_are_given_name_those_of_files_without_a_header(landing: Landing) -> None:
    landing.land("s/t/LOAD00000001.csv", "1;ann;10.50\n2;bob;11.00\n")
    landing.land("s/t/20240102-100000000.csv", "I;3;cy;1.25\nU;1;ann;2.50\n")
    found = "'column_1 bigint, column_2 string, column_3 decimal(18,2)'."
    for given, message in (
        ({"key": "id"}, "have 3 columns and no header. Name all columns with --columns"),
        ({"key": "id", "columns": "id int"}, "have 3 columns and no header, but --columns lists 1"),
    ):
        with pytest.raises(ConfigError, match=message) as error:
            add.sampled(landing.root, "s", "t", given)
        assert str(error.value).endswith(found)
    given = {"key": "id", "columns": "id int, name string, price decimal(9, 2)"}
    new = add.sampled(landing.root, "s", "t", given)
    assert new.columns == {"id": "int", "name": "string", "price": "decimal(9, 2)"}
    assert new.feed == {"format": "dms", "path": "s/t", "key": "id", "delimiter": ";"}
    assert not new.hints
    landing.land("s/u/LOAD00000001.csv", "I,1,ann,10.50\n")
    new = add.sampled(landing.root, "s", "u", given)
    assert new.feed == {"format": "dms", "path": "s/u", "key": "id", "op_in_load": True}
    # What the files show beyond the names stays.
    sequence = "20240102030405000000000000000000001"
    landing.land("s/v/20240102-100000000.csv", f"I,{sequence},caf\xe9\n".encode("latin-1"))
    given = {"key": "name", "columns": "seq string, name string"}
    new = add.sampled(landing.root, "s", "v", given)
    assert (new.feed["sequence"], new.feed["exclude_columns"]) == ("seq", "seq")
    assert "its text is not UTF-8: set its encoding, such as encoding: latin-1" in new.hints
