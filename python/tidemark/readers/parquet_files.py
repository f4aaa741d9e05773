"""Parquet files to records, with Arrow: each file by its own schema, every value as text."""

import base64
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from tidemark.feeds import Feed
from tidemark.readers import debezium, documents
from tidemark.readers.records import (
    ROWS,
    Names,
    Records,
    UnreadableFileError,
    is_of_machine,
    named,
    old_keys,
)

MAGIC = b"PAR1"

# From 0001-01-01 to 10000-01-01, since 1970.
_SECONDS = (-62_135_596_800, 253_402_300_800)

_SPARK_TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.binary(): "binary",
}


def read(file: IO[bytes], name: str, feed: Feed, kind: str) -> Iterator[Records]:
    """The records of a Parquet file; `_position` counts them from 1."""
    schema, tables = tables_of(file)
    if feed.format == "debezium":
        return debezium.records(_documents(tables), name, feed, {})
    if feed.format == "extract" and any(pa.types.is_struct(kind) for kind in schema.types):
        return documents.records(_documents(tables), feed)
    return _records(tables, named(schema.names, feed, kind))


def _records(tables: Iterable[pa.Table], names: Names) -> Iterator[Records]:
    first = 1
    for table in tables:
        yield _of_table(table, names, first)
        first += table.num_rows


def _of_table(table: pa.Table, names: Names, first: int) -> Records:
    columns = names.columns(
        lambda at: text_of(table.column(at)), lambda at: spark_type(table.column(at).type)
    )
    columns["_position"] = list(range(first, first + table.num_rows))
    found = Records(columns, table.num_rows)
    if names.before:
        before = {name: text_of(table.column(at)) for at, name in names.before.items()}
        found.parts += old_keys(found, before)
    return found.telling(table.column_names) if first == 1 else found


def _documents(tables: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
    """The rows as dictionaries; times are text, for Python's end with the year 9999."""
    for table in tables:
        columns = [_with_texts(column.combine_chunks()) for column in table.columns]
        yield from pa.Table.from_arrays(columns, names=table.column_names).to_pylist()


def _with_texts(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return text_of(column)
    if pa.types.is_struct(column.type):
        names = [column.type.field(at).name for at in range(column.type.num_fields)]
        fields = [_with_texts(field) for field in column.flatten()]
        return pa.StructArray.from_arrays(fields, names=names, mask=column.is_null())
    return column


def tables_of(file: IO[bytes]) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """The schema of the file, and its rows, some thousands at a time.

    Raises UnreadableFileError, perhaps while the rows are read, when it is not whole.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise UnreadableFileError("not a Parquet file")
    file.seek(0)
    with _damage_told():
        found = pa.parquet.ParquetFile(file)
        return found.schema_arrow, _tables(found)


def _tables(found: pa.parquet.ParquetFile) -> Iterator[pa.Table]:
    with _damage_told():
        for batch in found.iter_batches(ROWS, use_threads=False):
            yield pa.Table.from_batches([batch])


@contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if is_of_machine(error):
            raise
        raise UnreadableFileError(f"the Parquet file is damaged: {error}") from error


def spark_type(arrow_type: pa.DataType) -> str:
    """The Spark type of a column; `string` for what the log has as text alone."""
    if pa.types.is_decimal(arrow_type):
        return f"decimal({arrow_type.precision},{arrow_type.scale})"
    if pa.types.is_timestamp(arrow_type):
        return "timestamp" if arrow_type.tz else "timestamp_ntz"
    if pa.types.is_dictionary(arrow_type):
        return spark_type(arrow_type.value_type)
    return _SPARK_TYPES.get(arrow_type, "string")


def text_of(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The column as text, value by value without loss; binaries as base64."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_timestamp(kind):
        if kind.tz:
            column = column.cast(pa.timestamp(kind.unit, "UTC"))
        return _times(column)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        values = column.to_pylist()
        return pa.array(
            [None if value is None else base64.b64encode(value).decode() for value in values],
            pa.string(),
        )
    if pa.types.is_nested(kind):
        return pa.array([documents.text_of(value) for value in column.to_pylist()], pa.string())
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        return pa.array([_odd(value) for value in column], pa.string())


def _times(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Times as text; one beyond the years 1 to 9999, which Arrow writes wrongly, as its number."""
    numbers = column.cast(pa.int64())
    in_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
    first, last = (max(-(2**63), min(2**63 - 1, at * in_second)) for at in _SECONDS)
    is_sane = pc.and_(pc.greater_equal(numbers, first), pc.less(numbers, last))
    sane = pc.if_else(is_sane, column, pa.scalar(0, column.type))
    return pc.if_else(is_sane, sane.cast(pa.string()), numbers.cast(pa.string()))


def _odd(value: pa.Scalar) -> str | None:
    """A value that Arrow cannot write as text: a time out of its range, text that is none."""
    try:
        return None if not value.is_valid else str(value.cast(pa.string()).as_py())
    except pa.ArrowException:
        try:
            return str(value.cast(pa.int64()).as_py())
        except pa.ArrowException:
            return repr(value.cast(pa.binary()).as_py())
