"""Files to records, in Spark's Python workers: one module for each type of file.

What a reader gives is the same for all: where a record stands, what is wrong with it, what it
says of itself (operation, time, position in the source's log), and its columns as text.
"""

import gzip
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from tidemark.feeds import Feed
from tidemark.readers import avro_files, csv_files, json_files, parquet_files
from tidemark.readers.records import NO_BYTES, NO_ROWS, RECORD, Records, UnreadableFileError, schema

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
    """A function for `mapInArrow` over rows of (path, file_at, written_at, content).

    `kind` is that of the files: `load` or `changes`. The rows have the columns of `schema(feed)`.
    A file that cannot be taken is one row with `_reason` and no `_position`.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, file_at, written_at, content in zip(*batch.columns, strict=True):
                found = records_of(path.as_py(), content.as_py(), feed, kind)
                for name, at in (("_file_at", file_at), ("_written_at", written_at)):
                    found = found.append_column(name, pa.repeat(at, found.num_rows))
                yield from found.to_batches()

    return read


def records_of(path: str, content: bytes | None, feed: Feed, kind: str) -> pa.Table:
    """The records of one file."""
    try:
        if content is None:
            raise UnreadableFileError(VANISHED)
        records = _read(posixpath.basename(path), content, feed, kind)
        if feed.is_full_extract and not records.has_rows:
            if feed.extract_is == "file":
                raise UnreadableFileError(NO_ROWS)
            # The other parts of the extract may have rows.
            records = Records({"_skipped": ["empty part"]}, 1)
    except UnreadableFileError as error:
        records = Records.unreadable(str(error))
    except Exception as error:  # whatever an odd file does, the others are read
        records = Records.unreadable(f"the file cannot be read: {error!r}")
    return records.as_table(feed, path)


def _read(name: str, content: bytes, feed: Feed, kind: str) -> Records:
    if not content:
        raise UnreadableFileError("the file is empty (0 bytes)")
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise UnreadableFileError(f"the gzip file is damaged: {error}") from error
    return _READ[type_of_file(name) or _sniffed(content)](content, name, feed, kind)


def _sniffed(content: bytes) -> str:
    """The type of a file whose name does not tell it, as some Kafka sinks write them."""
    if content.startswith(parquet_files.MAGIC):
        return "parquet"
    return "avro" if content.startswith(avro_files.MAGIC) else "json"
