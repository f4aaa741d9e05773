"""Files that may be larger than memory: by lines and in small pieces they say what they say whole.

The files are those of all landing cases, and some that are broken far from their beginning.
"""

import errno
import gzip
import io
import json
import re
import resource
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.landings import cases
from tests.python.test_feeds import source
from tidemark import readers
from tidemark.feeds import Feed, feed_from_source
from tidemark.readers import csv_files, parquet_files, records, texts
from tidemark.reasons import Why
from tidemark.storage import as_text

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
    return _in_order(row for batch in found for row in batch.to_pylist())


def _in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
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
        (_feed(one, batch), kind, {f"{one.path}/{as_text(name)}": cases.content(file)})
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


def _at_hand(folder: Path, files: dict[str, bytes], feed: Feed, parts: int) -> list[dict[str, Any]]:
    """Rows of LOCAL_FILE, for files that are written here."""
    rows = []
    for number, (path, content) in enumerate(files.items()):
        file = folder / str(number)
        file.write_bytes(content)
        status = file.stat()
        row = {
            **{"path": path, "file_at": AT, "written_at": AT, "place": str(file)},
            **{"size": status.st_size, "modified": status.st_mtime_ns // 1000},
        }
        count = parts if readers.has_parts(path, feed) else 1
        rows += [{**row, "part": part, "parts": count} for part in range(count)]
    return rows


def _read_here(feed: Feed, kind: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = readers.local_reader(feed, kind)(pa.RecordBatch.from_pylist([row]) for row in rows)
    return _in_order(row for batch in found for row in batch.to_pylist())


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("one", cases.load(), ids=lambda one: one.name)
def test_a_file_that_workers_open_says_what_it_says_whole(
    one: cases.Case, parts: int, tmp_path: Path
) -> None:
    for batch in one.batches():
        feed = _feed(one, batch)
        files = {
            f"{one.path}/{as_text(name)}": cases.content(file)
            for name, file in one.files(batch).items()
        }
        for kind in ("load", "changes"):
            expected = read(feed, kind, whole(files))
            unreadable = {row["_file"] for row in expected if row["_position"] is None}
            found = _read_here(feed, kind, _at_hand(tmp_path, files, feed, parts))
            if parts == 1:
                assert found == expected
            # Landing reads a file whole when one of its parts cannot be taken.
            refused = {row["_file"] for row in found if row["_position"] is None}
            assert refused == unreadable
            assert [row for row in found if row["_file"] not in refused] == [
                row for row in expected if row["_file"] not in refused
            ]


def test_each_part_of_a_file_has_its_own_rows(tmp_path: Path) -> None:
    sink = io.BytesIO()
    pa.parquet.write_table(
        pa.table({"id": list(range(25_000))}), sink, row_group_size=7_000, data_page_size=100
    )
    feed = feed_from_source(source({"id": "bigint"}, format="extract", key="id"))
    assert feed
    rows = _at_hand(tmp_path, {"t/a.parquet": sink.getvalue()}, feed, 4)
    parts = [_read_here(feed, "changes", [row]) for row in rows]
    assert [len(part) for part in parts] == [6_250] * 4
    together = sorted((row["_position"], int(row["id"])) for part in parts for row in part)
    assert together == [(at + 1, at) for at in range(25_000)]


@pytest.mark.parametrize("change", ["grows", "goes"])
def test_a_file_that_is_another_one_by_now_is_not_read(tmp_path: Path, change: str) -> None:
    feed = feed_from_source(source({"id": "bigint"}, format="extract", key="id"))
    assert feed
    rows = _at_hand(tmp_path, {"t/a.csv": b"id\n1\n"}, feed, 1)
    if change == "goes":
        (tmp_path / "0").unlink()
    else:
        (tmp_path / "0").write_bytes(b"id\n1\n2\n")
    (row,) = _read_here(feed, "changes", rows)
    assert (row["_position"], row["_reason"]) == (None, Why.VANISHED.value)


def _lines(number: int) -> str:
    """A CSV file's records; some are bad, some blank, and some have line ends in them."""
    odd = {3: "{0},x,y", 5: '""', 7: "", 11: '{0},"a\nb ""c"""', 13: "{0},", 4: '{0},"a\r\nb\r"'}
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
        ("LOAD00000001.csv", MANY + '\n2000,"' + "x\r\n" * 4_000 + '"\n2001,b', None),
        ("LOAD00000001.csv", MANY + '\n2000,"a\nb', "the file ends inside quotes"),
        ("LOAD00000001.csv", MANY + '\n2000,5" pipe\n2001,"a\n2002,b\n', "the file ends inside"),
        ("a+0+5.json", "[1.5, 2e5, 3]" + BEGINS_WELL, None),
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
    assert row["_reason"] == Why.VANISHED.value


def test_no_block_ends_where_a_line_end_could_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    found = feed_from_source(source())
    assert found is not None
    for size in range(200, 216):
        monkeypatch.setattr(csv_files, "BLOCK", size)
        content = "".join(f'{number},"a\r\n\r\nb"\r\n' for number in range(500))
        rows = read(found, "load", whole({"LOAD00000001.csv": content.encode()}))
        assert {row["name"] for row in rows} == {"a\r\n\r\nb"}
        assert {row["_position"] for row in rows} == set(range(1, 501))


def test_no_more_is_read_ahead_than_some_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    read_so_far = []

    class File(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            part = super().read(size)
            read_so_far.append(len(part))
            return part

    monkeypatch.setattr(csv_files, "BLOCK", 1 << 16)
    monkeypatch.setattr(texts, "PIECE", 1 << 14)
    content = b"1,some name\n" * 1_000_000
    found = feed_from_source(source())
    assert found is not None
    parts = csv_files.read(File(content), "LOAD00000001.csv", found, "load")
    assert next(parts).rows < 10_000
    time.sleep(0.5)
    assert sum(read_so_far) < 50 << 16 < len(content)


def _typed(kind: str) -> bytes:
    written = io.BytesIO()
    rows = [{"id": number} for number in range(100_000)]
    if kind == "avro":
        fields = [{"name": "id", "type": "int"}]
        fastavro.writer(written, {"type": "record", "name": "r", "fields": fields}, rows)
    else:
        pa.parquet.write_table(pa.Table.from_pylist(rows), written)
    return written.getvalue()


@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_a_disk_that_fails_is_not_the_files_fault(kind: str) -> None:
    found = feed_from_source(source(format="extract"))
    assert found is not None

    class Failing(io.BytesIO):
        reads = 0

        def read(self, size: int | None = -1) -> bytes:
            self.reads += size != 4
            if self.reads > 1:
                raise OSError(errno.EIO, "Input/output error")
            return super().read(size)

    with pytest.raises(OSError, match="Input/output error"):
        list(readers.records_of(f"a.{kind}", Failing(_typed(kind)), found, "load"))
    (first, *_) = readers.records_of(f"a.{kind}", io.BytesIO(_typed(kind)), found, "load")
    assert first.column("_position")[0].as_py() == 1


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
