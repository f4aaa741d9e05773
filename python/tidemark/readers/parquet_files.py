"""Read Parquet files into records, with Arrow. Each file has its own schema; values become text."""

import itertools
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import IO, Any
from uuid import UUID

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
    binaries,
    is_of_machine,
    named,
    old_keys,
    require_names_once,
)
from tidemark.readers.texts import WRONG, bad_rows
from tidemark.reasons import Why

MAGIC = b"PAR1"

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
# The start of the years 1 and 10000, in seconds and in days since 1970.
_SECONDS = (-62_135_596_800, 253_402_300_800)
_DAYS = (-719_162, 2_932_897)
_DAY = 86_400

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
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
}
# Represents Parquet's type INTERVAL, which Arrow reads as bytes.
_INTERVAL = pa.month_day_nano_interval()


def read(
    file: IO[bytes], name: str, feed: Feed, kind: str, part: tuple[int, int] = (0, 1)
) -> Iterator[Records]:
    """The records of a Parquet file. `_position` counts from 1.

    `part` (number from 0, number of parts) selects a part of the rows. If the rows are documents,
    the first part has all of them.
    """
    schema, tables, rows = tables_of(file)
    if feed.format == "debezium":
        return debezium.records(documents_of(tables, schema), name, feed, {})
    if feed.format == "extract" and any(pa.types.is_struct(kind) for kind in schema.types):
        return documents.records(documents_of(tables if part[0] == 0 else [], schema), feed)
    number, parts = part
    start, end = (-(-rows * at // parts) for at in (number, number + 1))
    return _records(tables, schema, named(schema.names, feed, kind), feed, range(start, end))


def _records(
    tables: Iterable[pa.Table], schema: pa.Schema, names: Names, feed: Feed, wanted: range
) -> Iterator[Records]:
    first = 0
    for table in tables:
        begin, end = max(wanted.start - first, 0), wanted.stop - first
        if end <= 0:
            return
        found = table[begin:end]
        if found.num_rows:
            yield _of_table(found, schema, names, feed, first + begin + 1)
        first += table.num_rows


def _of_table(table: pa.Table, schema: pa.Schema, names: Names, feed: Feed, first: int) -> Records:
    types = schema.types
    texts = [text_of(column, kind) for column, kind in zip(table.columns, types, strict=True)]
    columns = names.columns(lambda at: texts[at], lambda at: spark_type(types[at]))
    columns["_position"] = list(range(first, first + table.num_rows))
    reasons = bad_rows(texts, {WRONG: Why.NOT_IN_ENCODING(encoding="utf-8")})
    if reasons:
        columns["_reason"] = reasons
    for at, name in names.declared.items():
        if name in feed.binary_columns and _is_text(types[at]):
            columns |= binaries(name, columns, feed)
    found = Records(columns, table.num_rows)
    if names.before:
        before = {name: texts[at] for at, name in names.before.items()}
        found.parts += old_keys(found, before, feed)
    return found.telling(table.column_names) if first == 1 else found


def documents_of(tables: Iterable[pa.Table], schema: pa.Schema) -> Iterator[dict[str, Any]]:
    """The rows as dictionaries."""
    require_names_once(schema.names)
    for table in tables:
        columns = [
            _values(column.combine_chunks(), kind)
            for column, kind in zip(table.columns, schema.types, strict=True)
        ]
        for row in zip(*columns, strict=True):
            yield dict(zip(schema.names, row, strict=True))


def tables_of(file: IO[bytes], **options: Any) -> tuple[pa.Schema, Iterator[pa.Table], int]:
    """The file's schema, its rows in batches, and the number of rows. `options` are Arrow's.

    Raises UnreadableFileError if the file is incomplete, possibly while the rows are read.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise UnreadableFileError(Why.NOT_PARQUET())
    file.seek(0)
    with _damage_told():
        # By default Arrow reads the old type INT96 as nanoseconds, which end in the year 2262.
        found = pa.parquet.ParquetFile(
            file, coerce_int96_timestamp_unit="us", arrow_extensions_enabled=True, **options
        )
        return schema_of(found), _tables(found), found.metadata.num_rows


def _tables(found: pa.parquet.ParquetFile) -> Iterator[pa.Table]:
    with _damage_told():
        for batch in found.iter_batches(ROWS, use_threads=False):
            yield pa.Table.from_batches([batch])


@contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnreadableFileError(Why.PARQUET_TYPE(error=error)) from error
    except (pa.ArrowException, OSError) as error:
        if is_of_machine(error):
            raise
        raise UnreadableFileError(Why.PARQUET_DAMAGED(error=error)) from error


# --- types ----------------------------------------------------------------------------------------


def schema_of(found: pa.parquet.ParquetFile) -> pa.Schema:
    """Arrow's column types, except ENUM and INTERVAL, which Arrow reads as bytes."""
    leaves = [found.schema.column(at) for at in range(len(found.schema))]
    told = iter(leaves)
    fields = [of.with_type(_told_type(of.type, told)) for of in found.schema_arrow]
    return pa.schema(fields)


def _told_type(kind: pa.DataType, leaves: Iterator[Any]) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        _told_type(kind.storage_type, leaves)
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([of.with_type(_told_type(of.type, leaves)) for of in _fields(kind)])
    if pa.types.is_map(kind):
        key = _told_type(kind.key_type, leaves)
        return pa.map_(key, _told_type(kind.item_type, leaves))
    if pa.types.is_nested(kind):
        return pa.list_(_told_type(kind.value_type, leaves))
    told = next(leaves).converted_type
    if told == "INTERVAL":
        return _INTERVAL
    return pa.string() if told == "ENUM" and pa.types.is_binary(kind) else kind


def _fields(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(at) for at in range(kind.num_fields)]


def spark_type(arrow_type: pa.DataType) -> str:
    """The Spark type of a column. `string` if the log has no better type."""
    if pa.types.is_decimal(arrow_type):
        scale = max(arrow_type.scale, 0)
        precision = max(arrow_type.precision - min(arrow_type.scale, 0), scale)
        return f"decimal({precision},{scale})" if precision <= 38 else "string"
    if pa.types.is_timestamp(arrow_type):
        return "timestamp" if arrow_type.tz else "timestamp_ntz"
    if pa.types.is_date(arrow_type):
        return "date"
    if pa.types.is_duration(arrow_type):
        return f"decimal(19,{_DIGITS[arrow_type.unit]})"
    if _is_binary(arrow_type):
        return "binary"
    if pa.types.is_dictionary(arrow_type):
        return spark_type(arrow_type.value_type)
    if isinstance(arrow_type, pa.BaseExtensionType) and not _is_uuid(arrow_type):
        return spark_type(arrow_type.storage_type)
    return _SPARK_TYPES.get(arrow_type, "string")


def _is_binary(kind: pa.DataType) -> bool:
    fixed: bool = pa.types.is_fixed_size_binary(kind)
    return fixed or kind in (pa.binary(), pa.large_binary(), pa.binary_view())


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"


# --- values ---------------------------------------------------------------------------------------


def text_of(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.Array:
    """The column as text, without loss. Binaries become base64."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(kind):
        return text_of(column.dictionary_decode(), kind.value_type)
    if isinstance(kind, pa.BaseExtensionType) and not _is_uuid(kind):
        return text_of(column.storage, kind.storage_type)
    if _is_text(kind):
        return _utf8(column)
    if pa.types.is_timestamp(kind):
        # As text, Arrow's times without a zone are 20 times as fast.
        utc = column.cast(pa.timestamp(kind.unit))
        first, end = (at * 10 ** _DIGITS[kind.unit] for at in _SECONDS)
        return _in_range(utc, first, end, "Z" if kind.tz else "")
    if pa.types.is_date(kind):
        return _in_range(column.cast(pa.date32()), *_DAYS)
    if pa.types.is_time(kind):
        end = _DAY * 10 ** _DIGITS[kind.unit]
        # PostgreSQL and DuckDB have this time.
        return pc.replace_substring_regex(_in_range(column, 0, end), f"^{end}$", "24:00:00")
    if pa.types.is_duration(kind):
        column = _seconds(column)
    if pa.types.is_decimal(column.type):
        return _digits(column)
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string())
    return pa.array([documents.text_of(value) for value in _values(column, kind)], pa.string())


def _values(column: pa.Array, kind: pa.DataType) -> list[Any]:
    """A column's values for a document. Values that Python cannot represent become text."""
    if pa.types.is_dictionary(kind):
        return _values(column.dictionary_decode(), kind.value_type)
    if _is_uuid(kind):
        return [None if raw is None else str(UUID(bytes=raw)) for raw in column.storage.to_pylist()]
    if isinstance(kind, pa.BaseExtensionType):
        return _values(column.storage, kind.storage_type)
    if kind == _INTERVAL:
        return [None if raw is None else _interval(raw) for raw in column.to_pylist()]
    if pa.types.is_nested(kind):
        return _nested(column, kind)
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        # The shortest representation, as in a top-level column.
        return list(column.cast(pa.string()).cast(pa.float64()).to_pylist())
    if _is_text(kind) or pa.types.is_temporal(kind):
        return list(text_of(column, kind).to_pylist())
    return list(column.to_pylist())


def _nested(column: pa.Array, kind: pa.DataType) -> list[Any]:
    is_there = column.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        names = [of.name for of in _fields(kind)]
        require_names_once(names)
        fields = [
            _values(inner, of.type)
            for inner, of in zip(column.flatten(), _fields(kind), strict=True)
        ]
        rows: Iterable[tuple[Any, ...]] = zip(*fields, strict=True)
        return [
            dict(zip(names, row, strict=True)) if there else None
            for row, there in zip(rows, is_there, strict=True)
        ]
    if pa.types.is_map(kind):
        keys, items = _values(column.keys, kind.key_type), _values(column.items, kind.item_type)
        ends = itertools.pairwise(column.offsets.to_pylist())
        return [
            documents.Entries(zip(keys[start:end], items[start:end], strict=True))
            if there
            else None
            for (start, end), there in zip(ends, is_there, strict=True)
        ]
    inner = iter(_values(column.flatten(), kind.value_type))
    lengths = pc.list_value_length(column).to_pylist()
    return [
        list(itertools.islice(inner, length)) if there else None
        for length, there in zip(lengths, is_there, strict=True)
    ]


def _utf8(column: pa.Array) -> pa.Array:
    """Text in which invalid bytes are replaced by a marker character."""
    raw = column.cast(pa.binary())
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [
            None if text is None else text.decode("utf-8", "tidemark") for text in raw.to_pylist()
        ]
        return pa.array(texts, pa.string())


def _in_range(column: pa.Array, first: int, end: int, zone: str = "") -> pa.Array:
    """Times and dates as text. Out of range, where Arrow's text is wrong, as a number."""
    numbers = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64()).cast(
        pa.int64()
    )
    first, end = max(first, -(2**63)), min(end, 2**63 - 1)
    is_sane = pc.and_(pc.greater_equal(numbers, first), pc.less(numbers, end))
    sane = pc.if_else(is_sane, column, pa.scalar(0, column.type))
    texts = sane.cast(pa.string())
    if zone:
        texts = pc.binary_join_element_wise(texts, zone, "")
    if pc.all(is_sane).as_py():
        return texts
    return pc.if_else(is_sane, texts, numbers.cast(pa.string()))


def _seconds(column: pa.Array) -> pa.Array:
    """Durations in seconds, so that every file has the same unit."""
    digits = _DIGITS[column.type.unit]
    unit = pa.scalar(Decimal(1).scaleb(-digits), pa.decimal128(digits + 1, digits))
    return pc.multiply(column.cast(pa.int64()).cast(pa.decimal128(19, 0)), unit)


def _digits(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    if pc.any(pc.match_substring(texts, "E")).as_py():
        return pa.array([documents.text_of(value) for value in column.to_pylist()], pa.string())
    return texts


def _interval(raw: bytes) -> str:
    """Parquet's months, days and milliseconds, in ISO 8601."""
    months, days, millis = struct.unpack("<III", raw)
    return f"P{months}M{days}DT{Decimal(millis).scaleb(-3):f}S"
