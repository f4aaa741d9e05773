"""Records of CSV files: values, positions, and what cannot be taken."""

import gzip
from typing import Any

import pyarrow as pa
import pytest

from tidemark.csv_records import Layout, reader


def layout(**changed: Any) -> Layout:
    settings: dict[str, Any] = {
        "fields": ("Op", "id", "name"),
        "required": ("Op", "id"),
        "header": False,
        "delimiter": ",",
        "null_text": ("", "NULL"),
    }
    return Layout(**(settings | changed))


def read(content: bytes, **changed: Any) -> list[dict[str, Any]]:
    batch = pa.record_batch({"path": pa.array(["f"]), "content": pa.array([content])})
    rows = pa.Table.from_batches(reader(layout(**changed))([batch])).to_pylist()
    return sorted(rows, key=lambda row: row["_position"] or 0)


def names(content: bytes, **changed: Any) -> list[Any]:
    return [row["name"] for row in read(content, **changed)]


def test_null_empty_and_the_word_null_are_three_things() -> None:
    assert names(b'I,1,\nI,2,""\nI,3,NULL\nI,4,"NULL"\n') == [None, "", None, "NULL"]


def test_quotes_delimiters_newlines_and_backslashes() -> None:
    content = b'I,1,"a ""q"" b"\nI,2,"x,y"\nI,3,"one\ntwo"\nI,4,C:\\dir\\\nI,5, padded \n'
    assert names(content) == ['a "q" b', "x,y", "one\ntwo", "C:\\dir\\", " padded "]


def test_positions_count_bad_records_and_not_blank_lines() -> None:
    rows = read(b"I,1,a\nI,2\n\nI,3,c\n")
    assert [(row["_position"], row["id"], row["_raw"], row["_reason"]) for row in rows] == [
        (1, "1", None, None),
        (2, None, "I,2", "2 fields instead of 3"),
        (3, "3", None, None),
    ]


def test_a_header_gives_the_names_in_any_order_and_case() -> None:
    rows = read(b"NAME,op,Id\nn,I,1\n", header=True)
    assert [(row["_position"], row["Op"], row["id"], row["name"]) for row in rows] == [
        (2, "I", "1", "n")
    ]


def test_a_declared_column_may_be_missing_from_the_header() -> None:
    assert names(b"Op,id\nI,1\n", header=True) == [None]


@pytest.mark.parametrize("content", [gzip.compress(b"I,1,a\n"), b"\xef\xbb\xbfI,1,a\n", b"I,1,a"])
def test_gzip_byte_order_mark_and_missing_last_newline(content: bytes) -> None:
    assert [(row["Op"], row["name"]) for row in read(content)] == [("I", "a")]


@pytest.mark.parametrize(
    ("content", "header", "reason"),
    [
        (b"", False, "the file is empty (0 bytes)"),
        (gzip.compress(b"I,1,a\n" * 99)[:-9], False, "the gzip file is damaged"),
        (b"I,1,caf\xe9\n", False, "not UTF-8: byte 7 of the file"),
        (b"PAR1\x00\x00", False, "not a text file"),
        (b"Op,id,name,age\n", True, "columns that are not declared: age"),
        (b"Op,name\n", True, "the header lacks id"),
        (b"I,1,a\n", True, "columns that are not declared: I, 1, a"),
    ],
)
def test_a_file_that_cannot_be_taken_is_one_row_with_the_reason(
    content: bytes, header: bool, reason: str
) -> None:
    (row,) = read(content, header=header)
    assert row["_position"] is None
    assert reason in row["_reason"]


def test_an_extract_without_rows_is_refused() -> None:
    (row,) = read(b"Op,id,name\n", header=True, may_be_empty=False)
    assert "would delete them all" in row["_reason"]
