"""Records of files: values, positions, and what cannot be taken."""

import base64
import gzip
import io
import json
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.python.test_feeds import declared
from tests.scenario import is_of_code
from tidemark import readers
from tidemark.feeds import Column, Feed
from tidemark.readers import debezium, json_files, parquet_files


def feed(**settings: Any) -> Feed:
    types = settings.pop("types", {"id": "int", "name": "string"})
    if "before_image_prefix" not in settings and settings.get("format", "dms") == "dms":
        settings.setdefault("format", "dms")
    found = declared(**{"key": "id", "sequence": None, **settings, "columns": types})
    return replace(found, columns=tuple(Column(*column) for column in types.items()))


def read(
    content: bytes | None,
    name: str = "20240101-100000000.csv",
    kind: str = "changes",
    **settings: Any,
) -> list[dict[str, Any]]:
    file = None if content is None else io.BytesIO(content)
    found = readers.records_of(f"a/b/{name}", file, feed(**settings), kind)
    rows = [row for batch in found for row in batch.to_pylist()]
    for row in rows:
        assert is_of_code(row["_code"], row["_reason"] or ""), row
    return sorted(rows, key=lambda row: row["_position"] or 0)


def names(content: bytes, **settings: Any) -> list[Any]:
    return [row["name"] for row in read(content, **settings)]


def test_null_empty_and_the_word_null_are_three_things() -> None:
    assert names(b'I,1,\nI,2,""\nI,3,NULL\nI,4,"NULL"\n') == [None, "", None, "NULL"]


def test_quotes_delimiters_newlines_and_backslashes() -> None:
    content = b'I,1,"a ""q"" b"\nI,2,"x,y"\nI,3,"one\ntwo"\nI,4,C:\\dir\\\nI,5, padded \n'
    assert names(content) == ['a "q" b', "x,y", "one\ntwo", "C:\\dir\\", " padded "]


def test_delimiters_of_several_characters() -> None:
    content = b'I||1||"a||b"@@I||2||c@@I||3||"d@@e"@@'
    assert names(content, delimiter="||", row_delimiter="@@") == ["a||b", "c", "d@@e"]


def test_without_quotes_a_quote_is_a_character() -> None:
    rows = read(b'I|1|"abc\nI|2|a "b" c\nI|3|\nI|4|x|y\n', delimiter="|", quote="none")
    assert [(row["name"], row["_reason"]) for row in rows] == [
        ('"abc', None),
        ('a "b" c', None),
        (None, None),
        (None, "4 fields instead of 3"),
    ]


def test_positions_count_bad_records_and_not_blank_lines() -> None:
    rows = read(b"I,1,a\nI,2\n\nI,3,c\n")
    assert [(row["_position"], row["id"], row["_raw"], row["_reason"]) for row in rows] == [
        (1, "1", None, None),
        (2, None, "I,2", "2 fields instead of 3"),
        (3, "3", None, None),
    ]


def test_a_header_gives_the_names_in_any_order_and_case() -> None:
    rows = read(b"NAME,op,Id\nn,I,1\n", header="all")
    assert [(row["_position"], row["_source_op"], row["id"], row["name"]) for row in rows] == [
        (2, "I", "1", "n")
    ]


def test_a_declared_column_may_be_missing_from_the_header() -> None:
    assert names(b"Op,id\nI,1\n", header="all") == [None]


def test_odd_names_find_their_column_and_no_two_the_same() -> None:
    types = {"id": "int", "order_id": "int", "total_eur": "string"}
    content = b"Op,id,order id,Total (EUR),Order_ID\nI,1,2,3.00,4\n"
    (row,) = read(content, header="all", types=types)
    assert (row["order_id"], row["total_eur"]) == ("4", "3.00")
    assert dict(row["_others"]) == {"order_id_2 string": "2"}


def test_columns_of_parquet_with_dots_and_twins() -> None:
    types = {"order_id": "int", "total_eur": "decimal(9, 2)", "a_b": "string", "name": "string"}
    values = {"order id": 1, "Total (EUR)": Decimal("1.10"), "a.b": "x", "Name": "A", "name": "a"}
    content = parquet({"Op": ["I"], **{name: [value] for name, value in values.items()}})
    (row,) = read(content, name="20240101-100000000.parquet", key="order_id", types=types)
    assert [row[name] for name in types] == ["1", "1.10", "x", "a"]
    assert dict(row["_others"]) == {"name_2 string": "A"}


@pytest.mark.parametrize(
    "content", [gzip.compress(b"I,1,a\n", mtime=0), b"\xef\xbb\xbfI,1,a\n", b"I,1,a"]
)
def test_gzip_byte_order_mark_and_missing_last_newline(content: bytes) -> None:
    assert [(row["_source_op"], row["name"]) for row in read(content)] == [("I", "a")]


def test_bytes_that_are_no_text_cost_one_record() -> None:
    rows = read(b"I,1,a\nI,2,caf\xe9\nI,3,b\x00\nI,4,d\n")
    assert [(row["_position"], row["_reason"]) for row in rows] == [
        (1, None),
        (2, "not utf-8"),
        (3, "contains a NUL character"),
        (4, None),
    ]
    assert names(b"I,2,caf\xe9\n", encoding="latin-1") == ["café"]


@pytest.mark.parametrize("name", ["\\ud800", "a\\\\\\udFFFb", "\\udc00\\ud800", "\\ud800\\n"])
def test_half_a_character_costs_one_record(name: str) -> None:
    content = f'{{"id":1,"name":"{name}"}}\n{{"id":2,"name":"\\ud83d\\ude00 \\\\ud800"}}\n'
    half, whole = read(content.encode(), name="a.json", format="extract")
    assert half["_reason"].startswith("contains half a surrogate pair")
    assert half["_raw"] == content.splitlines()[0]
    assert (whole["_position"], whole["name"], whole["_reason"]) == (2, "😀 \\ud800", None)


def test_what_a_library_says_is_for_the_dead_letter_alone() -> None:
    (row,) = read(b"Obj\x01secret", name="a.avro", format="extract")
    assert row["_reason"].startswith("the Avro file is damaged: ")
    assert "secret" not in row["_reason"]
    assert row["_value"]


@pytest.mark.parametrize(
    ("content", "settings", "reason"),
    [
        (b"", {}, "the file is empty (0 bytes)"),
        (None, {}, "the file vanished or changed before it was read"),
        (gzip.compress(b"I,1,a\n" * 99, mtime=0)[:-9], {}, "the gzip file is damaged"),
        (b"PAR1\x00\x00", {}, "not a text file: it is Parquet"),
        (b"I,1,a\n", {"name": "20240101-100000000.parquet"}, "not a Parquet file"),
        (b"PAR1\x00\x00", {"name": "20240101-100000000.parquet"}, "the Parquet file is damaged"),
        (b"Op,id,name,age\n", {"header": "all", "new_columns": "refuse"}, "not declared: age"),
        (b"Op,name\n", {"header": "all"}, "the file lacks id (key)"),
        (b"id,name\n", {"header": "all"}, "the file lacks Op"),
        (b"Op,id,id\n", {"header": "all"}, "the file repeats a column: id"),
        (b"OP,ID,NAME\nI,1,a\n", {}, "the file starts with a header"),
    ],
)
def test_a_file_that_cannot_be_taken_is_one_row_with_the_reason(
    content: bytes | None, settings: dict[str, Any], reason: str
) -> None:
    (row,) = read(content, **settings)
    assert row["_position"] is None
    assert reason in row["_reason"]


def test_an_extract_without_rows_is_one_row_that_says_so() -> None:
    # functional/test_full_loads.py: landing refuses it.
    for settings in ({}, {"extract_is": "folder", "time_in_name": "%Y%m%d"}):
        (row,) = read(b"id,name\n", name="x.csv", kind="load", format="extract", **settings)
        assert (row["_position"], row["_reason"]) == (None, None)
        assert row["_skipped"] == readers.NO_ROWS


def test_a_row_with_a_status_is_no_transaction_marker() -> None:
    marker = b'{"status": "END", "id": "571:5", "event_count": 2, "data_collections": null}'
    row = b'{"id": 1, "name": "a", "status": "END"}'
    rows = read(
        marker + b"\n" + row,
        name="a+0+5.json",
        format="debezium",
        upserts_only=True,
        sequence="offset",
    )
    assert [row["_skipped"] for row in rows] == ["transaction", None]


def test_a_changed_key_is_a_delete_and_an_insert() -> None:
    rows = read(b"U,3,new,1\nU,4,same,4\nU,5,same,\n", before_image_prefix="BI_")
    found = [(row["_position"], row["_source_op"], row["id"]) for row in rows]
    assert sorted(found) == [(1, "D", "1"), (1, "I", "3"), (2, "U", "4"), (3, "U", "5")]


def test_binaries_of_text_files() -> None:
    types = {"id": "int", "name": "binary"}
    rows = read(b"I,1,68656c6c6f\nI,2,0xFF\nI,3,zz\n", types=types)
    assert [row["name"] for row in rows[:2]] == [base64.b64encode(b"hello").decode(), "/w=="]
    assert (rows[2]["_reason"], rows[2]["_column"]) == ("not hex (binary_text)", "name")


def test_documents_of_json_in_every_arrangement() -> None:
    for content in (
        b'{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n',
        b'{"id":1,"name":"a"}{"id":2,"name":"b"}',
        b'[{"id": 1, "name": "a"},\n {"id": 2, "name": "b"}]',
        b'{\n "id": 1,\n "name": "a"\n}\n{\n "id": 2,\n "name": "b"\n}',
    ):
        rows = read(content, name="x.json", kind="load", format="extract")
        assert [(row["_position"], row["id"], row["name"]) for row in rows] == [
            (1, "1", "a"),
            (2, "2", "b"),
        ]


def test_numbers_of_json_keep_their_digits_and_nested_ones_are_flattened() -> None:
    content = (
        b'{"id": 18446744073709551615, "name": 1.10, "a": {"b": {"$numberDecimal": "2.50"}},'
        b' "tags": [1.0, "x", null], "when": {"$date": {"$numberLong": "1700000000000"}}}'
    )
    (row,) = read(content, name="x.json", kind="load", format="extract")
    assert (row["id"], row["name"]) == ("18446744073709551615", "1.10")
    assert dict(row["_others"]) == {
        "a_b string": "2.50",
        "tags string": '[1.0, "x", null]',
        "when string": "2023-11-14 22:13:20Z",
    }


def test_a_broken_document_costs_its_line() -> None:
    content = b'{"id": 1}\n{"id": \nnull\n{"id": 2, "name": "caf\xe9"}\n{"id": 3}'
    rows = read(content, name="x.json", kind="load", format="extract")
    assert [(row["_position"], row["id"], row["_reason"] is None) for row in rows] == [
        (1, "1", True),
        (2, None, False),
        (3, None, False),
        (4, None, False),
        (5, "3", True),
    ]
    assert rows[1]["_reason"].startswith("not JSON")
    assert rows[3]["_reason"] == "not utf-8"


@pytest.mark.parametrize(
    ("text", "scale", "number"),
    [
        ("EtZP", 2, "12345.11"),
        ("bg==", 2, "1.10"),
        ("AA==", 2, "0.00"),
        ("nA==", 2, "-1.00"),
        ("/w==", 2, "-0.01"),
        ("AIA=", 0, "128"),
        ("AP//////////", 0, "18446744073709551615"),
        ("SztMqFqGxHoJiiI//////w==", 0, "9" * 38),
        ("tMSzV6V5O4X2dd3AAAAAAQ==", 0, "-" + "9" * 38),
    ],
)
def test_decimals_of_kafka_connect(text: str, scale: int, number: str) -> None:
    found = feed(format="debezium", types={"id": "int", "name": f"decimal(38, {scale})"})
    data_type = found.columns[1].type
    assert debezium.decoded(text, "name", data_type, None, found) == number
    assert debezium.decoded(base64.b64decode(text), "name", data_type, None, found) == number
    assert Decimal(number).is_finite()


@pytest.mark.parametrize(
    "value",
    [
        "__debezium_unavailable_value",
        b"__debezium_unavailable_value",
        "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
        "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565",
        ["__debezium_unavailable_value"],
        list(b"__debezium_unavailable_value"),
        ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
        {"__debezium_unavailable_value": "__debezium_unavailable_value"},
    ],
)
def test_forms_of_the_unavailable_value(value: Any) -> None:
    assert debezium.is_unavailable(value, "__debezium_unavailable_value")
    assert not debezium.is_unavailable("value", "__debezium_unavailable_value")


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"lsn": 9}, {"lsn": 10}),
        (
            {"file": "mysql-bin.999999", "pos": 5, "row": 0},
            {"file": "mysql-bin.1000000", "pos": 4, "row": 0},
        ),
        ({"file": "b.000001", "pos": 4, "row": 1}, {"file": "b.000001", "pos": 4, "row": 2}),
        # A row of an incremental snapshot of PostgreSQL.
        ({"lsn": 99}, {"lsn": None, "sequence": '["90","100"]'}),
        ({"lsn": None, "sequence": '[null,"100"]'}, {"lsn": 101, "sequence": '["102","102"]'}),
        ({"commit_scn": "99", "scn": "5"}, {"commit_scn": "100", "scn": "4"}),
        (
            {"commit_lsn": "00000027:00000758:0003", "change_lsn": "a", "event_serial_no": 2},
            {"commit_lsn": "00000027:00000758:0003", "change_lsn": "a", "event_serial_no": 10},
        ),
    ],
)
def test_positions_in_the_source_sort_as_texts(
    earlier: dict[str, Any], later: dict[str, Any]
) -> None:
    first, second = debezium.position_of(earlier), debezium.position_of(later)
    assert first is not None
    assert second is not None
    assert first < second


# --- envelopes ----------------------------------------------------------------------------------


def envelope(op: str, lsn: int, before: Any = None, after: Any = None) -> str:
    source = {"lsn": lsn, "ts_ms": 1_704_067_200_000}
    return json.dumps({"op": op, "before": before, "after": after, "source": source})


def test_flattened_records_come_behind_envelopes() -> None:
    flat = {"id": 2, "name": "a\nb}{", "__op": "u", "__lsn": 2, "__source_ts_ms": 1}
    content = envelope("c", 1, after={"id": 1, "name": "a"}) + json.dumps(flat, indent=1)
    rows = read(content.encode(), name="x.json", format="debezium")
    assert [(row["_source_op"], row["id"], row["name"]) for row in rows] == [
        ("I", "1", "a"),
        ("U", "2", "a\nb}{"),
    ]


def test_a_changed_key_in_an_envelope_is_a_delete_and_an_insert() -> None:
    a, b, c = {"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 2, "name": "c"}
    content = "\n".join([envelope("c", 1, None, a), envelope("u", 2, a, b), envelope("u", 3, b, c)])
    rows = read(content.encode(), name="x.json", format="debezium")
    found = [(row["_position"], row["_source_op"], row["id"], row["name"]) for row in rows]
    assert sorted(found, key=str) == [
        (1, "I", "1", "a"),
        (2, "D", "1", None),
        (2, "I", "2", "b"),
        (3, "U", "2", "c"),
    ]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (12345.10, "12345.1"),
        ("12345.11", "12345.11"),
        ("EtZP", "12345.11"),
        ({"scale": 0, "value": "AIA="}, "128"),
        ("1234", None),
    ],
)
def test_a_decimal_says_what_it_is_unless_it_could_be_two(value: Any, number: str | None) -> None:
    """As in Oracle, the key has its own scale."""
    after = {"id": {"scale": 0, "value": "fw=="}, "name": value}
    types = {"id": "int", "name": "decimal(10, 2)"}
    content = envelope("c", 1, after=after).encode()
    (row,) = read(content, name="x.json", format="debezium", types=types)
    assert (row["id"], row["name"]) == ("127", number)
    assert row["_reason"] == (None if number else "base64 or a number: set decimals")


# --- what a JSON text may hold ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (r'"a\u0000b"', "contains a NUL character (\\u0000)"),
        (r'"a\ud800b"', "contains half a surrogate pair (\\ud800)"),
        (r'"a\udc00b"', "contains half a surrogate pair (\\udc00)"),
        (r'"\ud83d\ud83d\ude00"', "contains half a surrogate pair (\\ud83d)"),
        (r'{"a": ["x", {"\ud800": 1}]}', "contains half a surrogate pair (\\ud800)"),
        ('{"$date": {"$numberLong": "253402300800000"}}', "$date is not in milliseconds"),
        ('{"$date": {"$numberLong": [1]}}', "$date is not in milliseconds"),
        ('{"$date": 1.5}', "$date is not in milliseconds"),
        ('{"$binary": {"subType": "00"}}', "$binary has no base64"),
        ("[" * 3_000 + "]" * 3_000, "are nested more than 200 levels deep"),
        ('{"a":' * 3_000 + "1" + "}" * 3_000, "are nested more than 200 levels deep"),
        ("[" * 400 + "]" * 400, "are nested more than 200 levels deep"),
    ],
)
@pytest.mark.parametrize("column", ["name", "other"])
def test_an_odd_document_costs_one_record(value: str, reason: str, column: str) -> None:
    good = '{"id": "1", "name": "a"}'
    odd = f'{{"id": "2", "{column}": {value}}}'
    for content in (f"{good}\n{odd}\n{good}", f"[{good},{odd},{good}]", f"{good}{odd}{good}"):
        rows = read(content.encode(), name="x.json", kind="load", format="extract")
        assert [row["name"] for row in rows if not row["_reason"]] == ["a", "a"]
        (refused,) = (row for row in rows if row["_reason"])
        assert reason in refused["_reason"]
        assert refused["_position"] == 2
        assert json.loads(refused["_raw"]) if len(value) < 99 else refused["_raw"] == odd


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"\\u0000 \\ud800", r"\u0000 \ud800"),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\\\ud83d\uDE00\n", "\\\U0001f600\n"),
        (r"\u00e9\u0001", "é\x01"),
    ],
)
def test_escapes_of_json_that_are_text(text: str, value: str) -> None:
    content = f'{{"id": 1, "name": "{text}"}}'.encode()
    (row,) = read(content, name="x.json", kind="load", format="extract")
    assert (row["name"], row["_reason"]) == (value, None)


def test_many_objects_beside_one_another_are_not_deep() -> None:
    tags = json.dumps([{"[": ["{{{"]}] * 1_000)
    content = f'{{"id": 1, "name": {tags}}}'.encode()
    (row,) = read(content, name="x.json", kind="load", format="extract")
    assert (row["name"], row["_reason"]) == (tags, None)


def test_as_deep_as_may_be() -> None:
    deep = "[" * (json_files.DEEPEST - 1) + "]" * (json_files.DEEPEST - 1)
    content = f'{{"id": 1, "name": {deep}}}'.encode()
    (row,) = read(content, name="x.json", kind="load", format="extract")
    assert (row["name"], row["_reason"]) == (deep, None)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"lsn": [1]}, "no position in the source's log"),
        ({"lsn": 1, "ts_ms": [1]}, None),
        (
            {"lsn": 1, "name": {"scale": [1], "value": "AQ=="}},
            "the record cannot be read: TypeError",
        ),
        (
            {"lsn": 1, "name": {"scale": 10**9, "value": "AQ=="}},
            "the decimal has an invalid scale: 1000000000",
        ),
        ({"lsn": 1, "name": {"scale": 10**9, "value": "AQ=="}, "other": "x"}, "the decimal has an"),
    ],
)
def test_an_odd_event_costs_one_record(event: dict[str, Any], reason: str | None) -> None:
    name = event.pop("name", None)
    others = {"other": event.pop("other")} if "other" in event else {}
    good = {"op": "c", "source": {"lsn": 2}, "after": {"id": 1, "name": "a"}}
    odd = {"op": "c", "source": event, "after": {"id": 2, "name": name, **others}}
    content = "\n".join(json.dumps(each) for each in (good, odd, good))
    rows = read(content.encode(), name="a+0+1.json", format="debezium", sequence="source")
    assert [row["name"] for row in rows[::2]] == ["a", "a"]
    assert [row["_reason"] for row in rows[::2]] == [None, None]
    assert (rows[1]["_reason"] or "").startswith(reason or "")
    assert (rows[1]["_reason"] is None) is (reason is None)
    assert reason or rows[1]["_source_time"] == "[1]"


# --- names --------------------------------------------------------------------------------------


def test_a_letter_and_its_accent_are_one_letter_in_a_name() -> None:
    types = {"id": "int", "café": "string", "straße": "string"}
    decomposed = "Op,id,cafe\u0301,straße,Ça va".replace("Ç", "C\u0327")
    (row,) = read(f"{decomposed}\nI,1,a,b,c\n".encode(), header="all", types=types)
    assert (row["café"], row["straße"]) == ("a", "b")
    assert dict(row["_others"]) == {"ça_va string": "c"}
    content = '{"id": 1, "cafe\u0301": {"a": 1}}'.encode()
    (row,) = read(content, name="x.json", kind="load", format="extract", types=types)
    assert (row["café"], row["_others"]) == ('{"a": 1}', None)


# --- gzip ---------------------------------------------------------------------------------------


def test_a_gzip_file_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"I,1,a\n" * 100_000
    packed = gzip.compress(content)
    assert len(content) > readers.UNPACKED_TIMES * len(packed)
    assert len(read(packed)) == 100_000
    monkeypatch.setattr(readers, "UNPACKED_BYTES", 1 << 16)
    # Far behind the limit it is damaged, which nobody comes to see.
    monkeypatch.setattr(readers, "_PIECE", 1 << 10)
    (row,) = read(packed[:-8])
    limit = 100 * (len(packed) - 8)
    told = f"the gzip file of {len(packed) - 8} bytes unpacks to more than {limit}"
    assert (row["_position"], row["_reason"]) == (None, told)
    # What shrinks as texts do is none of it.
    assert len(read(gzip.compress(content[:60_000]))) == 10_000


# --- types of Parquet ---------------------------------------------------------------------------

BYTES = b"\x00\xffa"
IN_BASE64 = "AP9h"
EXTENDED = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16))], pa.binary(16)))


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    written = io.BytesIO()
    pq.write_table(pa.table(columns), written, **options)
    return written.getvalue()


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind)


def enum(content: bytes) -> bytes:
    """The file with Parquet's type ENUM in place of STRING, which Arrow does not write."""
    string, enum = b"\x25\x00\x4c\x1c\x00\x00", b"\x25\x08\x4c\x4c\x00\x00"
    assert string in content
    return content.replace(string, enum)


ARROW = [
    # Polars: all of them; DuckDB and pandas: most.
    (column([BYTES], pa.binary()), IN_BASE64, "binary"),
    (column([BYTES], pa.large_binary()), IN_BASE64, "binary"),
    (column([BYTES], pa.binary_view()), IN_BASE64, "binary"),
    (column([BYTES], pa.binary(3)), IN_BASE64, "binary"),
    (column(["é\U0001f600"], pa.string()), "é\U0001f600", "string"),
    (column(["é\x00"], pa.large_string()), "é\x00", "string"),
    (column(["é"], pa.string_view()), "é", "string"),
    (column(["é"], pa.string()).dictionary_encode(), "é", "string"),
    (column(["é"], pa.large_string()).dictionary_encode(), "é", "string"),
    (column([BYTES], pa.binary()).dictionary_encode(), IN_BASE64, "binary"),
    (column([True], pa.bool_()), "true", "boolean"),
    (column([-128], pa.int8()), "-128", "tinyint"),
    (column([2**8 - 1], pa.uint8()), "255", "smallint"),
    (column([2**16 - 1], pa.uint16()), "65535", "int"),
    (column([2**32 - 1], pa.uint32()), "4294967295", "bigint"),
    (column([2**64 - 1], pa.uint64()), "18446744073709551615", "decimal(20,0)"),
    (column([-(2**63)], pa.int64()), "-9223372036854775808", "bigint"),
    (column([0.5], pa.float16()), "0.5", "float"),
    (column([0.1], pa.float32()), "0.1", "float"),
    (column([0.1], pa.float64()), "0.1", "double"),
    (column([Decimal("1.10")], pa.decimal32(9, 2)), "1.10", "decimal(9,2)"),
    (column([Decimal("-1.10")], pa.decimal64(18, 2)), "-1.10", "decimal(18,2)"),
    (column([Decimal("1e-18")], pa.decimal128(38, 18)), f"0.{'0' * 17}1", "decimal(38,18)"),
    (column([Decimal("9" * 74 + ".10")], pa.decimal256(76, 2)), "9" * 74 + ".10", "string"),
    (column([Decimal("0.10")], pa.decimal256(38, 2)), "0.10", "decimal(38,2)"),
    (column([date(2024, 1, 31)], pa.date32()), "2024-01-31", "date"),
    (column([date(2024, 1, 31)], pa.date64()), "2024-01-31", "date"),
    (column([2**31 - 1], pa.date32()), "2147483647", "date"),
    (column([-719_163], pa.date32()), "-719163", "date"),
    (column([-719_162], pa.date32()), "0001-01-01", "date"),
    (column([time(10, 11, 12)], pa.time32("s")), "10:11:12.000", "string"),
    (column([time(10, 11, 12, 123000)], pa.time32("ms")), "10:11:12.123", "string"),
    (column([time(10, 11, 12, 123456)], pa.time64("us")), "10:11:12.123456", "string"),
    (column([86_399_999_999_999], pa.time64("ns")), "23:59:59.999999999", "string"),
    (column([86_400_000_000], pa.time64("us")), "24:00:00", "string"),
    (column([86_400_000_001], pa.time64("us")), "86400000001", "string"),
    (column([1], pa.timestamp("ns")), "1970-01-01 00:00:00.000000001", "timestamp_ntz"),
    (column([-1], pa.timestamp("us")), "1969-12-31 23:59:59.999999", "timestamp_ntz"),
    (column([2**63 - 1], pa.timestamp("us")), "9223372036854775807", "timestamp_ntz"),
    (column([1], pa.timestamp("ms", "Europe/Berlin")), "1970-01-01 00:00:00.001Z", "timestamp"),
    (
        column([1], pa.timestamp("us")).dictionary_encode(),
        "1970-01-01 00:00:00.000001",
        "timestamp_ntz",
    ),
    (column([-1_500_000], pa.duration("us")), "-1.500000", "decimal(19,6)"),
    (column([1], pa.duration("ns")), "0.000000001", "decimal(19,9)"),
    (column([2**63 - 1], pa.duration("ms")), "9223372036854775.807", "decimal(19,3)"),
    (column([90], pa.duration("s")), "90", "decimal(19,0)"),
    (EXTENDED, "00010203-0405-0607-0809-0a0b0c0d0e0f", "string"),
]


@pytest.mark.parametrize(("values", "text", "data_type"), ARROW, ids=lambda each: str(each)[:40])
def test_types_that_arrow_writes(values: pa.Array, text: str, data_type: str) -> None:
    """As a column, as a list's element, as a map's value, as a field of a struct, and as NULL."""
    lists = pa.ListArray.from_arrays([0, 1], values)
    maps = pa.MapArray.from_arrays([0, 1], ["k"], values)
    try:
        whole = parquet({"id": [1], "name": values, "list": lists, "map": maps})
    except pa.ArrowNotImplementedError as error:
        pytest.skip(f"Arrow {pa.__version__}: {error}")
    (row,) = read(whole, name="LOAD00000001.parquet", kind="load")
    assert (row["name"], row["_reason"]) == (text, None)
    others = dict(row["_others"])
    (in_list,) = json.loads(others["list string"])
    assert _as_text(in_list) == text
    # Up to Arrow 21, a duration in a map comes back as a plain number.
    if not pa.types.is_duration(values.type):
        assert _as_text(json.loads(others["map string"])["k"]) == text
    fields = pa.StructArray.from_arrays([values, lists], names=["value", "list"])
    nested = parquet({"id": [1], "of": fields})
    (row,) = read(nested, name="x.parquet", kind="load", format="extract")
    others = dict(row["_others"])
    assert others["of_value string"] == text
    assert json.loads(others["of_list string"]) == [in_list]
    schema, *_ = parquet_files.tables_of(io.BytesIO(whole))
    assert parquet_files.spark_type(schema.field("name").type) == data_type
    nothing = pa.table({"id": [1], "name": values}).slice(0, 0)
    empty = pa.concat_tables([nothing, pa.table({"id": [1]})], promote_options="default")
    assert empty.schema.field("name").type == values.type
    (row,) = read(
        parquet({n: empty[n] for n in empty.column_names}), name="LOAD00000001.parquet", kind="load"
    )
    assert (row["name"], row["_reason"]) == (None, None)


def _as_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool | float | int) else str(value)


def test_an_enum_of_parquet_is_text() -> None:
    values = pa.array(["é", None])
    lists = pa.ListArray.from_arrays([0, 1, 2], values)
    content = parquet({"id": [1, 2], "name": values, "list": lists}, store_schema=False)
    rows = read(enum(content), name="LOAD00000001.parquet", kind="load")
    assert [row["name"] for row in rows] == ["é", None]
    assert [dict(row["_others"]) for row in rows] == [
        {"list string": '["é"]'},
        {"list string": "[null]"},
    ]


def test_times_of_the_old_type_int96_do_not_end_in_2262() -> None:
    values = pa.array([datetime(9999, 12, 31), datetime(1, 1, 1)], pa.timestamp("us"))
    content = parquet({"id": [1, 2], "name": values}, use_deprecated_int96_timestamps=True)
    rows = read(content, name="LOAD00000001.parquet", kind="load")
    assert [row["name"] for row in rows] == [
        "9999-12-31 00:00:00.000000",
        "0001-01-01 00:00:00.000000",
    ]


def test_nested_values_keep_their_nulls_and_maps_their_order() -> None:
    kind = pa.map_(pa.string(), pa.list_(pa.struct([("n", pa.int32()), ("f", pa.float64())])))
    values: list[Any] = [[("b", [{"n": 1, "f": None}, None]), ("a", None)], None, [], [("c", [])]]
    values.append([("d", [{"n": 2, "f": float("nan")}])])
    content = parquet({"id": range(1, 6), "name": pa.array(values, kind)})
    rows = read(content, name="LOAD00000001.parquet", kind="load")
    assert [row["name"] for row in rows] == [
        '{"b": [{"n": 1, "f": null}, null], "a": null}',
        None,
        "{}",
        '{"c": []}',
        '{"d": [{"n": 2, "f": NaN}]}',
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_text_of_parquet_that_is_none_costs_one_record(kind: pa.DataType) -> None:
    raw = pa.array([b"a", b"caf\xe9", None, b"d"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 4, raw.buffers()).cast(kind, safe=False)
    lists = pa.ListArray.from_arrays([0, 1, 2, 3, 4], texts)
    fields = pa.StructArray.from_arrays([texts], names=["t"])
    flat = {"name": "LOAD00000001.parquet", "kind": "load"}
    nested = {"name": "x.parquet", "kind": "load", "format": "extract"}
    ids = list("1234")
    for columns, about in (
        ({"name": texts}, flat),
        ({"other": texts}, flat),
        ({"name": lists}, flat),
        ({"name": texts, "of": fields}, nested),
        ({"of": fields}, nested),
        ({"of": fields, "other": lists}, nested),
    ):
        rows = read(parquet({"id": ids, **columns}), **about)
        assert [row["_reason"] for row in rows] == [None, "not utf-8", None, None]


def test_texts_for_a_binary_column_are_read_as_in_other_files() -> None:
    types = {"id": "int", "name": "binary"}
    content = parquet({"id": [1, 2, 3], "name": ["00ff61", None, "test"]})
    rows = read(content, name="LOAD00000001.parquet", kind="load", types=types)
    assert [row["name"] for row in rows[:2]] == [IN_BASE64, None]
    assert (rows[2]["_reason"], rows[2]["_column"]) == ("not hex (binary_text)", "name")


def test_a_repeated_name_in_parquet_is_no_silent_choice() -> None:
    fields = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    for columns in ([[1], [2], fields], [[1], fields]):
        names = ["id", "of", "of"][-len(columns) :] if len(columns) == 3 else ["id", "of"]
        written = io.BytesIO()
        pq.write_table(pa.Table.from_arrays([pa.array(c) for c in columns], names=names), written)
        (row,) = read(written.getvalue(), name="x.parquet", kind="load", format="extract")
        assert row["_reason"].startswith("the file repeats a column: ")


# --- Avro ---------------------------------------------------------------------------------------


def test_odd_values_of_avro_cost_one_record() -> None:
    time_of = {"type": "long", "logicalType": "timestamp-micros"}
    day = {"type": "int", "logicalType": "date"}
    fields = [("id", "int"), ("name", "string"), ("at", time_of), ("day", day)]
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    }
    good = {"id": 1, "name": "some name", "at": 0, "day": 0}
    far = {"id": 2, "name": "a", "at": 253402300800000000, "day": 2**31 - 1}
    broken = {"id": 3, "name": "BROKEN", "at": 0, "day": 0}
    written = io.BytesIO()
    fastavro.writer(written, fastavro.parse_schema(schema), [good, far, broken, good])
    content = written.getvalue().replace(b"BROKEN", b"caf\xe9 a")
    rows = read(content, name="x.avro", kind="load", format="extract")
    assert [row["_reason"] for row in rows] == [None, None, "not utf-8", None]
    assert [dict(row["_others"]) for row in rows[:2]] == [
        {"at timestamp": "1970-01-01 00:00:00Z", "day date": "1970-01-01"},
        {"at timestamp": "253402300800000000", "day date": "2147483647"},
    ]
