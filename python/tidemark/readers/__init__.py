"""Files to records, in Spark's Python workers: one module for each type of file.

What a reader gives is the same for all: where a record stands, what is wrong with it, what it
says of itself (operation, time, position in the source's log), and its columns as text.
"""

import gzip
import io
import itertools
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
    "NO_BYTES",
    "NO_ROWS",
    "RECORD",
    "VANISHED",
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
_TYPE = re.compile(r"\.(csv|json|jsonl|ndjson|parquet|avro)(\.gz)?$", re.IGNORECASE)
_READ = {
    "csv": csv_files.read,
    "json": json_files.read,
    "jsonl": json_files.read,
    "ndjson": json_files.read,
    "parquet": parquet_files.read,
    "avro": avro_files.read,
}


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
                for batch in records_of(path.as_py(), file, feed, kind):
                    found = pa.Table.from_batches([batch])
                    for name, at in (("_file_at", file_at), ("_written_at", written_at)):
                        found = found.append_column(name, pa.repeat(at, found.num_rows))
                    yield from found.to_batches(ROWS)

    return read


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
    path: str, file: IO[bytes] | None, feed: Feed, kind: str
) -> Iterator[pa.RecordBatch]:
    """The records of one file: all of them, or the one row that says why none."""
    # Whether a file can be taken shows at its end; until then its records are put aside.
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as aside:
        try:
            if file is None:
                raise UnreadableFileError(VANISHED)
            _put_aside(aside, path, file, feed, kind)
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


def _put_aside(aside: IO[bytes], path: str, file: IO[bytes], feed: Feed, kind: str) -> None:
    schema = Records().as_table(feed, path).schema
    with _unpacked(file) as plain, pa.ipc.new_stream(aside, schema) as stream:
        has_rows = False
        for part in _read(posixpath.basename(path), plain, feed, kind):
            has_rows = has_rows or part.has_rows
            stream.write_table(part.as_table(feed, path))
        if feed.is_full_extract and not has_rows:
            if feed.extract_is == "file":
                raise UnreadableFileError(NO_ROWS)
            # The other parts of the extract may have rows.
            stream.write_table(Records({"_skipped": ["empty part"]}, 1).as_table(feed, path))


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


def _read(name: str, file: IO[bytes], feed: Feed, kind: str) -> Iterator[Records]:
    return _READ[type_of_file(name) or _sniffed(file)](file, name, feed, kind)


def _sniffed(file: IO[bytes]) -> str:
    """The type of a file whose name does not tell it, as some Kafka sinks write them."""
    start = file.read(4)
    file.seek(0)
    if start == parquet_files.MAGIC:
        return "parquet"
    return "avro" if start == avro_files.MAGIC else "json"
