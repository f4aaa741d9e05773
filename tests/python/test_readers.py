"""Records of files: values, positions, and what cannot be taken."""

import base64
import gzip
import io
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tests.python.test_feeds import declared
from tidemark import readers
from tidemark.feeds import Column, Feed
from tidemark.readers import debezium


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


@pytest.mark.parametrize("content", [gzip.compress(b"I,1,a\n"), b"\xef\xbb\xbfI,1,a\n", b"I,1,a"])
def test_gzip_byte_order_mark_and_missing_last_newline(content: bytes) -> None:
    assert [(row["_source_op"], row["name"]) for row in read(content)] == [("I", "a")]


def test_bytes_that_are_no_text_cost_one_record() -> None:
    rows = read(b"I,1,a\nI,2,caf\xe9\nI,3,b\x00\nI,4,d\n")
    assert [(row["_position"], row["_reason"]) for row in rows] == [
        (1, None),
        (2, "not utf-8"),
        (3, "holds a NUL character"),
        (4, None),
    ]
    assert names(b"I,2,caf\xe9\n", encoding="latin-1") == ["café"]


@pytest.mark.parametrize("name", ["\\ud800", "a\\\\\\udFFFb", "\\udc00\\ud800", "\\ud800\\n"])
def test_half_a_character_costs_one_record(name: str) -> None:
    content = f'{{"id":1,"name":"{name}"}}\n{{"id":2,"name":"\\ud83d\\ude00 \\\\ud800"}}\n'
    half, whole = read(content.encode(), name="a.json", format="extract")
    assert half["_reason"].startswith("holds half a character")
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
        (gzip.compress(b"I,1,a\n" * 99)[:-9], {}, "the gzip file is damaged"),
        (b"PAR1\x00\x00", {}, "not a text file: it is Parquet"),
        (b"I,1,a\n", {"name": "20240101-100000000.parquet"}, "not a Parquet file"),
        (b"PAR1\x00\x00", {"name": "20240101-100000000.parquet"}, "the Parquet file is damaged"),
        (b"Op,id,name,age\n", {"header": "all", "new_columns": "refuse"}, "not declared: age"),
        (b"Op,name\n", {"header": "all"}, "the file lacks id (key)"),
        (b"id,name\n", {"header": "all"}, "the file lacks Op"),
        (b"Op,id,id\n", {"header": "all"}, "the file repeats a column: id"),
        (b"OP,ID,NAME\nI,1,a\n", {}, "the file begins with a header"),
    ],
)
def test_a_file_that_cannot_be_taken_is_one_row_with_the_reason(
    content: bytes | None, settings: dict[str, Any], reason: str
) -> None:
    (row,) = read(content, **settings)
    assert row["_position"] is None
    assert reason in row["_reason"]


def test_an_extract_without_rows_is_refused() -> None:
    (row,) = read(b"id,name\n", name="x.csv", kind="load", format="extract")
    assert "would delete them all" in row["_reason"]


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
    rows = read(
        b'{"id": 1}\n{"id": \nnull\n{"id": 3}', name="x.json", kind="load", format="extract"
    )
    assert [(row["_position"], row["id"], row["_reason"] is None) for row in rows] == [
        (1, "1", True),
        (2, None, False),
        (3, None, False),
        (4, "3", True),
    ]


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
