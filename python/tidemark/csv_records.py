"""CSV files to records, in Spark's Python workers: Arrow's reader, one file at a time."""

import csv
import gzip
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv

GZIP_MAGIC = b"\x1f\x8b"

# Someone can confirm that an extract is to be empty.
NO_ROWS = "the extract has no rows: taking it would delete them all"


@dataclass(frozen=True)
class Layout:
    """How the fields of a file's records are to be read."""

    fields: tuple[str, ...]
    required: tuple[str, ...]
    header: bool
    delimiter: str
    null_text: tuple[str, ...]
    may_be_empty: bool = True


class UnreadableFileError(Exception):
    """The file as a whole cannot be taken; the message says why."""


def record_schema(layout: Layout) -> str:
    """The Spark schema of what `reader` gives: where from, what is wrong, then the fields."""
    fields = ", ".join(f"`{name}` string" for name in layout.fields)
    return f"_path string, _position bigint, _raw string, _reason string, {fields}"


def reader(layout: Layout) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over (path, content) rows of Spark's binaryFile source.

    Each record becomes a row; `_position` counts the file's records from 1, its header and its
    bad records included, blank lines not. A record with another number of fields has `_reason`
    and `_raw`; a file that cannot be taken is one row with `_reason` and no `_position`.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, content in zip(batch["path"], batch["content"], strict=True):
                yield from _records(path.as_py(), content.as_py(), layout).to_batches()

    return read


def _records(path: str, content: bytes, layout: Layout) -> pa.Table:
    try:
        good, bad = _parse(content, layout)
        if not layout.may_be_empty and not good.num_rows and not bad:
            raise UnreadableFileError(NO_ROWS)
    except UnreadableFileError as error:
        return _table(layout, [path], [None], [None], [str(error)], None)
    total = good.num_rows + len(bad)
    first = 2 if layout.header else 1
    bad_positions = {position for position, _, _ in bad}
    positions = [at for at in range(first, first + total) if at not in bad_positions]
    rows = good.num_rows
    good_part = _table(layout, [path] * rows, positions, [None] * rows, [None] * rows, good)
    bad_part = _table(
        layout,
        [path] * len(bad),
        [position for position, _, _ in bad],
        [raw for _, raw, _ in bad],
        [reason for _, _, reason in bad],
        None,
    )
    return pa.concat_tables([good_part, bad_part])


def _table(
    layout: Layout,
    paths: list[str],
    positions: list[int] | list[None],
    raws: list[str] | list[None],
    reasons: list[str] | list[None],
    values: pa.Table | None,
) -> pa.Table:
    nothing = pa.nulls(len(paths), pa.string())
    columns = {
        "_path": pa.array(paths, pa.string()),
        "_position": pa.array(positions, pa.int64()),
        "_raw": pa.array(raws, pa.string()),
        "_reason": pa.array(reasons, pa.string()),
    }
    for name in layout.fields:
        if values is not None and name in values.column_names:
            columns[name] = values[name]
        else:
            columns[name] = nothing
    return pa.table(columns)


def _parse(content: bytes, layout: Layout) -> tuple[pa.Table, list[tuple[int, str, str]]]:
    """The good records, and (position, text, reason) of the others."""
    text = _text(content)
    names = _header(text, layout) if layout.header else list(layout.fields)
    bad: list[tuple[int, str, str]] = []

    def refuse(row: pa.csv.InvalidRow) -> str:
        reason = f"{row.actual_columns} fields instead of {row.expected_columns}"
        bad.append((row.number, row.text, reason))
        return "skip"

    try:
        good = pa.csv.read_csv(
            io.BytesIO(text),
            read_options=pa.csv.ReadOptions(
                column_names=names,
                skip_rows=1 if layout.header else 0,
                use_threads=False,
                # The file in one block: a record must not be larger than one.
                block_size=min(max(len(text) + 1, 1 << 20), (1 << 31) - 1),
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=layout.delimiter, newlines_in_values=True, invalid_row_handler=refuse
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                null_values=list(layout.null_text),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            return pa.table({name: pa.array([], pa.string()) for name in names}), bad
        raise UnreadableFileError(f"not readable as CSV: {error}") from error
    return good, bad


def _text(content: bytes) -> bytes:
    if not content:
        raise UnreadableFileError("the file is empty (0 bytes)")
    if content.startswith(GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise UnreadableFileError(f"the gzip file is damaged: {error}") from error
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"not UTF-8: byte {error.start} of the file") from error
    if b"\x00" in content:
        raise UnreadableFileError("not a text file: it holds NUL characters")
    return content


def _header(text: bytes, layout: Layout) -> list[str]:
    """The file's columns, under the names that the feed declares (letter case is no matter)."""
    line = text.split(b"\n", 1)[0].decode("utf-8").rstrip("\r")
    found = next(csv.reader([line], delimiter=layout.delimiter), [])
    declared = {name.lower(): name for name in layout.fields}
    unknown = [name for name in found if name.strip().lower() not in declared]
    if unknown:
        raise UnreadableFileError(
            f"the header has columns that are not declared: {', '.join(unknown)}"
        )
    names = [declared[name.strip().lower()] for name in found]
    missing = [name for name in layout.required if name not in names]
    if missing or len(set(names)) < len(names):
        raise UnreadableFileError(
            f"the header lacks {', '.join(missing)}" if missing else "the header repeats a column"
        )
    return names
