"""Read files into records, in Spark's Python workers. One module per file type.

All readers return the same: a record's position in the file, the reason and its code if it is bad,
its metadata (operation, time, position in the source's log), and its columns as text.
"""

import gzip
import io
import itertools
import os
import posixpath
import re
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from tidemark.feeds import Feed
from tidemark.readers import avro_files, csv_files, json_files, parquet_files
from tidemark.readers.records import (
    NO_ROWS,
    ROWS,
    Records,
    UnreadableFileError,
    is_of_machine,
    schema,
)
from tidemark.reasons import Why

__all__ = ["NO_ROWS", "schema"]

_GZIP = b"\x1f\x8b"
# How many bytes of a file, and of its records, are kept in memory. The rest is spilled to disk.
IN_MEMORY = 64 << 20
# A gzip file may unpack to this many times its size, or to this many bytes if that is more. Text
# usually shrinks to a tenth; gzip's limit is about a thousandth.
UNPACKED_TIMES = 100
UNPACKED_BYTES = 1 << 30
_PIECE = 1 << 20
# The part number and the number of parts, for a file that is read as a whole.
WHOLE = (0, 1)
_TYPE = re.compile(r"\.(csv|json|jsonl|ndjson|parquet|avro)(\.gz)?$", re.IGNORECASE)
_READ: dict[str, Callable[[IO[bytes], str, Feed, str], Iterator[Records]]] = {
    "csv": csv_files.read,
    "json": json_files.read,
    "jsonl": json_files.read,
    "ndjson": json_files.read,
    "parquet": parquet_files.read,
    "avro": avro_files.read,
}


def has_parts(name: str, feed: Feed) -> bool:
    """Whether a file's records can be read in parts: true for Parquet files with flat rows."""
    is_parquet = type_of_file(name) == "parquet" and not name.lower().endswith(".gz")
    return is_parquet and feed.format in ("dms", "extract")


def type_of_file(name: str, start: bytes = b"") -> str | None:
    """The file type: `csv`, `json`, `jsonl`, `ndjson`, `parquet`, `avro`, or None.

    Names that Kafka sinks write do not tell it; the first 4 bytes do, `start`.
    """
    found = _TYPE.search(name)
    if found:
        return found[1].lower()
    otherwise = "json" if start.lstrip()[:1] in (b"{", b"[") else None
    return {parquet_files.MAGIC: "parquet", avro_files.MAGIC: "avro"}.get(start, otherwise)


def reader(feed: Feed, kind: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` over rows of (path, file_at, written_at, content, size).

    A file is one row without `size`. A file that may be larger than memory is one row per line, in
    order, with the file's size. `content` is NULL if the file no longer exists. `kind` is `load` or
    `changes`. The result has the columns of `schema(feed)`. A refused file is one row with
    `_reason` and no `_position`.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for about, pieces in itertools.groupby(_pieces(batches), _about):
            path, file_at, written_at, size = about
            with _content(pieces, size.as_py()) as file:
                records = records_of(path.as_py(), file, feed, kind)
                yield from _dated(records, file_at, written_at)

    return read


_UTC = pa.timestamp("us", "UTC")
# A file that Python workers open themselves: its location, the planned version, and which part of
# its rows to read.
LOCAL_FILE = (
    "path string, file_at timestamp, written_at timestamp, "
    "place string, size bigint, modified bigint, part int, parts int"
)


def local_reader(
    feed: Feed, kind: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Like `reader`, over rows of LOCAL_FILE. The content of the files does not go through Spark.

    A refused part is one row with `_reason`. It does not affect the other parts.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                times = [pa.scalar(row[name], _UTC) for name in ("file_at", "written_at")]
                records = local_records(
                    row["path"],
                    row["place"],
                    feed,
                    kind,
                    part=(row["part"], row["parts"]),
                    version=(row["size"], row["modified"]),
                )
                yield from _dated(records, *times)

    return read


def local_records(
    path: str,
    place: str,
    feed: Feed,
    kind: str,
    *,
    part: tuple[int, int] = WHOLE,
    version: tuple[int, int],
) -> Iterator[pa.RecordBatch]:
    """Like `records_of`, for the file at a place that this process can open."""
    with _opened(place) as file:
        yield from records_of(path, file, feed, kind, part=part, version=version)


@contextmanager
def _opened(place: str) -> Iterator[IO[bytes] | None]:
    try:
        file = io.FileIO(place)
    except FileNotFoundError:
        yield None
        return
    with file, io.BufferedReader(file) as content:
        yield content


def _is_version(file: IO[bytes], version: tuple[int, int] | None) -> bool:
    if version is None:
        return True
    status = os.fstat(file.fileno())
    return version == (status.st_size, status.st_mtime_ns // 1000)


def _dated(
    records: Iterable[pa.RecordBatch], file_at: pa.Scalar, written_at: pa.Scalar
) -> Iterator[pa.RecordBatch]:
    for batch in records:
        found = pa.Table.from_batches([batch])
        for name, at in (("_file_at", file_at), ("_written_at", written_at)):
            found = found.append_column(name, pa.repeat(at, found.num_rows))
        yield from found.to_batches(ROWS)


def _about(piece: pa.RecordBatch) -> tuple[pa.Scalar, ...]:
    path, file_at, written_at, _, size = (column[0] for column in piece.columns)
    return path, file_at, written_at, size


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split batches into slices of one file each."""
    for batch in batches:
        start = 0
        for end in pc.run_end_encode(batch.column(0)).run_ends.to_pylist():
            yield batch.slice(start, end - start)
            start = end


@contextmanager
def _content(pieces: Iterable[pa.RecordBatch], size: int | None) -> Iterator[IO[bytes] | None]:
    """A file's content, from its row or, with `size`, its lines. None if the file is gone."""
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as file:
        is_there = True
        for piece in pieces:
            found = piece.column(3).to_pylist()
            is_there = is_there and None not in found
            if is_there:
                file.write(b"\n".join(found))
                if size is not None:
                    file.write(b"\n")
        if size is not None:
            # Spark drops the last line end and the byte order mark, which has three bytes.
            lacking = size + 1 - file.tell()
            is_there = is_there and lacking in (0, 1, 3, 4)
            if lacking in (0, 3):
                file.truncate(file.tell() - 1)
        file.seek(0)
        yield file if is_there else None


def records_of(
    path: str,
    file: IO[bytes] | None,
    feed: Feed,
    kind: str,
    *,
    part: tuple[int, int] = WHOLE,
    version: tuple[int, int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of one file, or a single row with the reason why it is refused.

    `part` (number from 0, number of parts) selects a part of a Parquet file. With `version` (bytes,
    modification time in microseconds), the file on disk must not change until it has been read.
    """
    # Only the end of a file shows whether it is readable. Until then its records are buffered.
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as aside:
        try:
            if file is None:
                raise UnreadableFileError(Why.VANISHED())
            try:
                _put_aside(aside, path, file, feed, kind, part)
            finally:
                if not _is_version(file, version):
                    raise UnreadableFileError(Why.VANISHED())
        except Exception as error:
            if is_of_machine(error):
                raise
            if not isinstance(error, UnreadableFileError):
                # An unexpected error in one file must not stop the others.
                reason = Why.UNREADABLE(str(error), error=type(error).__name__)
                error = UnreadableFileError(reason)
            unreadable = Records.unreadable(error.reason)
            yield from unreadable.as_table(feed, path).to_batches()
            return
        aside.seek(0)
        yield from pa.ipc.open_stream(aside)


def _put_aside(
    aside: IO[bytes],
    path: str,
    file: IO[bytes],
    feed: Feed,
    kind: str,
    part: tuple[int, int],
) -> None:
    schema = Records().as_table(feed, path).schema
    with _unpacked(file) as plain, pa.ipc.new_stream(aside, schema) as stream:
        has_rows = False
        for found in _read(posixpath.basename(path), plain, feed, kind, part):
            has_rows = has_rows or found.has_rows
            stream.write_table(found.as_table(feed, path))
        # If the file has rows, its first part has some.
        if feed.is_full_extract and not has_rows and part[0] == 0:
            # Whether the extract has rows is not known here: its other files may have some.
            stream.write_table(Records({"_skipped": [NO_ROWS]}, 1).as_table(feed, path))


@contextmanager
def _unpacked(file: IO[bytes]) -> Iterator[IO[bytes]]:
    start = file.read(len(_GZIP))
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    if not start:
        raise UnreadableFileError(Why.NO_BYTES())
    if start != _GZIP:
        yield file
        return
    limit = max(UNPACKED_TIMES * size, UNPACKED_BYTES)
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as plain:
        try:
            packed = gzip.GzipFile(fileobj=file, mode="rb")
            while piece := packed.read(_PIECE):
                if plain.tell() + len(piece) > limit:
                    raise UnreadableFileError(Why.GZIP_TOO_LARGE(size=size, limit=limit))
                plain.write(piece)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UnreadableFileError(Why.GZIP_DAMAGED(error=error)) from error
        plain.seek(0)
        yield plain


def _read(
    name: str, file: IO[bytes], feed: Feed, kind: str, part: tuple[int, int]
) -> Iterator[Records]:
    start = file.read(4)
    file.seek(0)
    read = _READ[type_of_file(name, start) or "json"]
    if read is parquet_files.read:
        return parquet_files.read(file, name, feed, kind, part)
    return read(file, name, feed, kind)
