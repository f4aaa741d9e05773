"""Files to records, in Spark's Python workers: one module for each type of file.

What a reader gives is the same for all: where a record stands, what is wrong with it, what it
says of itself (operation, time, position in the source's log), and its columns as text.
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
    NO_BYTES,
    NO_ROWS,
    RECORD,
    ROWS,
    Records,
    UnreadableFileError,
    is_of_machine,
    schema,
)

__all__ = [
    "LOCAL_FILE",
    "NO_BYTES",
    "NO_ROWS",
    "RECORD",
    "VANISHED",
    "WHOLE",
    "has_parts",
    "local_reader",
    "reader",
    "records_of",
    "schema",
    "type_of_file",
]

VANISHED = "the file vanished or changed before it was read"
_GZIP = b"\x1f\x8b"
# So many bytes of a file, and of its records, are held in memory; more are on disk.
IN_MEMORY = 64 << 20
# What a gzip file may unpack to: so many times its size, and so many bytes in any case. Texts
# shrink to a tenth or so, and gzip cannot do better than a thousandth.
UNPACKED_TIMES = 100
UNPACKED_BYTES = 1 << 30
_PIECE = 1 << 20
# The part of a file that is the one of one.
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
    """Whether a file's records can be read in parts: a Parquet file's that are rows."""
    is_parquet = type_of_file(name) == "parquet" and not name.lower().endswith(".gz")
    return is_parquet and feed.format in ("dms", "extract")


def type_of_file(name: str) -> str | None:
    """`csv`, `json`, `jsonl`, `ndjson`, `parquet` or `avro`, by the file's name; else None."""
    found = _TYPE.search(name)
    return found[1].lower() if found else None


def reader(feed: Feed, kind: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over rows of (path, file_at, written_at, content, size).

    A file is one row without `size`, or, where it may be larger than memory, a row for each of its
    lines, one after the other, with the file's size. A `content` of NULL: it is not there any more.
    `kind` is that of the files: `load` or `changes`. The rows have the columns of `schema(feed)`.
    A file that cannot be taken is one row with `_reason` and no `_position`.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for about, pieces in itertools.groupby(_pieces(batches), _about):
            path, file_at, written_at, size = about
            with _content(pieces, size.as_py()) as file:
                records = records_of(path.as_py(), file, feed, kind)
                yield from _dated(records, file_at, written_at)

    return read


_UTC = pa.timestamp("us", "UTC")
# Of a file that Python workers open themselves: where it is, its version as planned, and which of
# how many parts of its rows are to be read.
LOCAL_FILE = (
    "path string, file_at timestamp, written_at timestamp, "
    "place string, size bigint, modified bigint, part int, parts int"
)


def local_reader(
    feed: Feed, kind: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """As `reader`, over rows of LOCAL_FILE: nothing of a file's content goes through Spark.

    A part that cannot be taken is one row with `_reason`; the other parts do not know of it.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                times = [pa.scalar(row[name], _UTC) for name in ("file_at", "written_at")]
                with _opened(row["place"]) as file:
                    records = records_of(
                        row["path"],
                        file,
                        feed,
                        kind,
                        part=(row["part"], row["parts"]),
                        version=(row["size"], row["modified"]),
                    )
                    yield from _dated(records, *times)

    return read


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
    """The rows of each file together, as far as they stand in one batch."""
    for batch in batches:
        start = 0
        for end in pc.run_end_encode(batch.column(0)).run_ends.to_pylist():
            yield batch.slice(start, end - start)
            start = end


@contextmanager
def _content(pieces: Iterable[pa.RecordBatch], size: int | None) -> Iterator[IO[bytes] | None]:
    """A file's content, from its one row or, with `size`, from its lines; None when it is gone."""
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
            # Spark gives neither the last line end nor a byte order mark, which has three bytes.
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
    """The records of one file: all of them, or the one row that says why none.

    With `part` (number from 0, of how many) a Parquet file's records of that part alone. With
    `version` (bytes, time of writing in microseconds) the file on disk must be that one to its end.
    """
    # Whether a file can be taken shows at its end; until then its records are put aside.
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as aside:
        try:
            if file is None:
                raise UnreadableFileError(VANISHED)
            try:
                _put_aside(aside, path, file, feed, kind, part)
            finally:
                if not _is_version(file, version):
                    raise UnreadableFileError(VANISHED)
        except Exception as error:
            if is_of_machine(error):
                raise
            if not isinstance(error, UnreadableFileError):
                # Whatever an odd file does, the others are read.
                error = UnreadableFileError(
                    f"the file cannot be read: {type(error).__name__}", error
                )
            unreadable = Records.unreadable(str(error), error.value)
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
        # The first part has rows if the file has some.
        if feed.is_full_extract and not has_rows and part[0] == 0:
            # Whether the extract has rows is not known here: its other files may have some.
            stream.write_table(Records({"_skipped": [NO_ROWS]}, 1).as_table(feed, path))


@contextmanager
def _unpacked(file: IO[bytes]) -> Iterator[IO[bytes]]:
    start = file.read(len(_GZIP))
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    if not start:
        raise UnreadableFileError(NO_BYTES)
    if start != _GZIP:
        yield file
        return
    limit = max(UNPACKED_TIMES * size, UNPACKED_BYTES)
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as plain:
        try:
            packed = gzip.GzipFile(fileobj=file, mode="rb")
            while piece := packed.read(_PIECE):
                if plain.tell() + len(piece) > limit:
                    raise UnreadableFileError(
                        f"the gzip file of {size} bytes unpacks to more than {limit}"
                    )
                plain.write(piece)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UnreadableFileError(f"the gzip file is damaged: {error}") from error
        plain.seek(0)
        yield plain


def _read(
    name: str, file: IO[bytes], feed: Feed, kind: str, part: tuple[int, int]
) -> Iterator[Records]:
    read = _READ[type_of_file(name) or _sniffed(file)]
    if read is parquet_files.read:
        return parquet_files.read(file, name, feed, kind, part)
    return read(file, name, feed, kind)


def _sniffed(file: IO[bytes]) -> str:
    """The type of a file whose name does not tell it, as some Kafka sinks write them."""
    start = file.read(4)
    file.seek(0)
    if start == parquet_files.MAGIC:
        return "parquet"
    return "avro" if start == avro_files.MAGIC else "json"
