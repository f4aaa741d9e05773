"""Files that may be larger than memory: by lines and in small pieces they say what they say whole.

The files are those of all landing cases, and some that are broken far from their beginning.
"""

import gzip
import json
import re
import resource
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pytest

from tests.landings import cases
from tests.python.test_feeds import source
from tidemark import readers
from tidemark.feeds import Feed, feed_from_source
from tidemark.readers import csv_files, parquet_files, records, texts

ROWS = pa.schema(
    [
        ("path", pa.string()),
        ("file_at", pa.timestamp("us", "UTC")),
        ("written_at", pa.timestamp("us", "UTC")),
        ("content", pa.binary()),
        ("size", pa.int64()),
    ]
)
AT = datetime(2024, 1, 1, tzinfo=UTC)


def whole(files: dict[str, bytes]) -> list[pa.RecordBatch]:
    rows = [(path, AT, AT, content, None) for path, content in files.items()]
    return [_batch(rows)] if rows else []


def by_lines(files: dict[str, bytes], at_once: int) -> list[pa.RecordBatch]:
    """As Spark gives the lines of text: without their ends, and without a byte order mark."""
    rows = [
        (path, AT, AT, line, len(content))
        for path, content in files.items()
        for line in re.findall(rb"[^\n]*\n|[^\n]+\Z", content.removeprefix(b"\xef\xbb\xbf"))
    ]
    rows = [(*row[:3], row[3].removesuffix(b"\n"), row[4]) for row in rows]
    return [_batch(rows[at : at + at_once]) for at in range(0, len(rows), at_once)]


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch(
        [pa.array(column, of.type) for column, of in zip(columns, ROWS, strict=True)], schema=ROWS
    )


def read(feed: Feed, kind: str, batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    found = readers.reader(feed, kind)(batches)
    rows = [row for batch in found for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: json.dumps(row, default=str, sort_keys=True))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "PIECE", 5)
    monkeypatch.setattr(csv_files, "BLOCK", 1_000)
    monkeypatch.setattr(readers, "IN_MEMORY", 10)
    for module in (records, parquet_files, readers):
        monkeypatch.setattr(module, "ROWS", 2)


def _feed(one: cases.Case, batch: int) -> Feed:
    node = source(one.columns_at(batch), **{"path": one.path, **one.feed})
    found = feed_from_source(node)
    assert found is not None
    return found


@pytest.mark.parametrize("one", cases.load(), ids=lambda one: one.name)
def test_a_file_by_lines_and_in_pieces_says_what_it_says_whole(
    one: cases.Case, request: pytest.FixtureRequest
) -> None:
    landed = [
        (_feed(one, batch), kind, {f"{one.path}/{name}": cases.content(file)})
        for batch in one.batches()
        for name, file in one.files(batch).items()
        for kind in ("load", "changes")
        if (kind == "load") == PurePosixPath(name).name.upper().startswith("LOAD")
    ]
    landed = [(feed, kind, files) for feed, kind, files in landed if all(files.values())]
    expected = [read(feed, kind, whole(files)) for feed, kind, files in landed]
    assert all(expected)
    request.getfixturevalue("small_pieces")
    assert [read(feed, kind, by_lines(files, 3)) for feed, kind, files in landed] == expected


def _lines(number: int) -> str:
    """A CSV file's records; some are bad, some blank, and some have line ends in them."""
    odd = {3: "{0},x,y", 5: '""', 7: "", 11: '{0},"a\nb ""c"""', 13: "{0},"}
    line = "{0},name"
    for divisor, form in odd.items():
        line = form if number % divisor == 0 else line
    return line.format(number)


MANY = "\n".join(_lines(number) for number in range(1, 2_000))
BEGINS_WELL = "\n".join(f'{{"id": {number}}}' for number in range(500))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("LOAD00000001.csv", MANY, None),
        ("LOAD00000001.csv", "\ufeff" + MANY + "\r\n\r\n", None),
        ("LOAD00000001.csv", MANY + '\n2000,"a\nb', "the file ends inside quotes"),
        ("a+0+5.json", BEGINS_WELL, None),
        ("a+0+5.json", BEGINS_WELL + '\n{"id": "' + "x\\n" * 3_000 + '"}12', None),
        ("a+0+5.json", BEGINS_WELL + '\n{"id" 1}\n{"id": tru', None),
        ("a+0+5.json", f"[{BEGINS_WELL.replace('}', '},')}", "the JSON array has no end"),
    ],
)
def test_what_stands_far_from_the_beginning(
    name: str, content: str, reason: str | None, request: pytest.FixtureRequest
) -> None:
    kind = "load" if name.startswith("LOAD") else "changes"
    is_dms = kind == "load"
    node = source() if is_dms else source(format="extract", status_column="s")
    found = feed_from_source(node)
    assert found is not None
    files = {name: content.encode()}
    expected = read(found, kind, whole(files))
    if reason:
        assert [row["_reason"][: len(reason)] for row in expected] == [reason]
    else:
        assert len(expected) >= 500
    request.getfixturevalue("small_pieces")
    assert read(found, kind, by_lines(files, 7)) == expected


@pytest.mark.parametrize("grown", [b"2,b\n", b"2"])
def test_a_file_that_grew_while_it_was_read_is_none(grown: bytes) -> None:
    found = feed_from_source(source())
    assert found is not None
    (batch,) = by_lines({"LOAD00000001.csv": b"1,a\n" + grown}, 9)
    sizes = pa.array([4] * batch.num_rows, pa.int64())
    batch = batch.set_column(4, "size", sizes)
    (row,) = read(found, "load", [batch])
    assert row["_reason"] == readers.VANISHED


@pytest.mark.parametrize("packed", [False, True])
def test_a_full_disk_is_not_the_files_fault(packed: bool, small_pieces: None) -> None:
    found = feed_from_source(source())
    assert found is not None
    content = MANY.encode()
    batches = whole({"LOAD00000001.csv": gzip.compress(content) if packed else content})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The kernel refuses what goes beyond it, as it does on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            read(found, "load", batches)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
