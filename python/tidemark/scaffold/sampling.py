"""Sample the start of a file: its columns, their Spark types, some of their values.

Reads about a megabyte of text, or a few thousand rows of Parquet and Avro.
"""

import codecs
import csv
import gzip
import io
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial, reduce
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv

from tidemark.errors import printable
from tidemark.feeds import Feed
from tidemark.readers import avro_files, documents, json_files, parquet_files, type_of_file
from tidemark.readers.documents import Broken, Number
from tidemark.readers.records import UnreadableFileError
from tidemark.reasons import Why

TEXT_BYTES = 1 << 20
ROWS = 2_000
DELIMITERS = ",;|\t"
# The limit for gzipped Parquet, the only type that must be completely in memory.
_GZIP_PARQUET_BYTES = 1 << 28
_GZIP = b"\x1f\x8b"

_WHOLE_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)")
_FRACTION = re.compile(r"[+-]?(0|[1-9]\d*)?\.(\d+)")
_NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?)(\.\d{1,9})?( ?(Z|UTC|[+-]\d{2}:\d{2}))?"
)
# Columns of digits that are not numbers, since a later value may start with 0.
_NO_NUMBER = re.compile(
    r"(^|_)(zip|zip_?code|post_?code|postal_?code|plz|phone|mobile|fax|iban)(_|$)"
)
_WHOLE_TYPES = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


class UnreadableSampleError(Exception):
    """The sample is not readable, with the reason as the message."""


@dataclass
class Column:
    """One column of a sample.

    `type` comes from the file's schema, if it has one. Otherwise the type is inferred from the
    values: those of a CSV file are texts of any type (`is_loose`), those of JSON have JSON's types.
    """

    values: list[Any]
    type: str | None = None
    is_loose: bool = False


@dataclass
class Sample:
    """The start of one file, as columns or as documents.

    `rows` has the records of JSON, Avro and Parquet files, `schema` the schema of an Avro file,
    `text` the text of text files.
    """

    path: Path
    type: str
    columns: dict[str, Column] = field(default_factory=dict)
    rows: list[Any] = field(default_factory=list)
    schema: Any = None
    text: str = ""
    encoding: str = "utf-8"


# Opens a file for reading bytes.
Open = Callable[[Path], Any]
on_disk: Open = partial(Path.open, mode="rb")


def read(path: Path, opened: Open = on_disk) -> Sample:
    """Read the start of a file. Its type comes from its name, or else from its first bytes.

    `csv_columns` splits the text of a CSV file. Raises UnreadableSampleError.
    """
    try:
        with _unpacked(path, opened) as file:
            start = file.read(4)
            file.seek(0)
            kind = type_of_file(path.name, start)
            if not kind:
                raise UnreadableSampleError("its type is unknown, by its name and its first bytes")
            if not start:
                raise UnreadableSampleError(str(Why.NO_BYTES()))
            if kind == "parquet":
                return _parquet(path, file)
            if kind == "avro":
                return _avro(path, file)
            sample = _text(path, kind, file)
    except UnreadableFileError as error:
        more = f": {printable(error.reason.value)}" if error.reason.value else ""
        raise UnreadableSampleError(f"{error}{more}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableSampleError(f"not readable: {error}") from error
    if kind != "csv":
        sample.rows = list(_documents(sample))
        if not sample.rows:
            raise UnreadableSampleError("the file does not start with a JSON document")
    return sample


@contextmanager
def _unpacked(path: Path, opened: Open) -> Iterator[Any]:
    with opened(path) as file:
        is_gzip = file.read(2) == _GZIP
        file.seek(0)
        if not is_gzip:
            yield file
            return
        with gzip.open(file) as plain:
            is_parquet = type_of_file(path.name) == "parquet"
            yield io.BytesIO(plain.read(_GZIP_PARQUET_BYTES)) if is_parquet else plain


# --- typed files ----------------------------------------------------------------------------------


def _parquet(path: Path, file: IO[bytes]) -> Sample:
    # Without these options, Arrow would read the columns of the first row group whole.
    schema, tables, _ = parquet_files.tables_of(file, pre_buffer=False, buffer_size=1 << 16)
    table = next(tables, schema.empty_table()).slice(0, ROWS)
    rows = list(parquet_files.documents_of([table], schema))
    return Sample(path, "parquet", dict(_arrow_columns("", schema, table.columns)), rows)


def _arrow_columns(
    prefix: str, fields: Iterable[pa.Field], columns: Iterable[Any]
) -> Iterator[tuple[str, Column]]:
    """The columns of a table. Structs are flattened as in landing."""
    for of, column in zip(fields, columns, strict=True):
        name = f"{prefix}{of.name}"
        if pa.types.is_struct(of.type):
            whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            yield from _arrow_columns(f"{name}_", of.type, whole.flatten())
        else:
            yield name, Column(_python(column), parquet_files.spark_type(of.type))


def _python(column: Any) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError, pa.ArrowException):
        # A time that Python cannot represent. Values are only compared.
        return [value if value.is_valid else None for chunk in column.chunks for value in chunk]


def _avro(path: Path, file: IO[bytes]) -> Sample:
    schema, found = avro_files.documents_of(file)
    rows = list(itertools.islice(found, ROWS))
    flat = document_columns(rows)
    columns = {
        name: Column(flat[name].values if name in flat else [None] * len(rows), kind)
        for name, kind in _avro_types("", schema)
    }
    return Sample(path, "avro", columns, rows, schema)


def _avro_types(prefix: str, schema: Any) -> Iterator[tuple[str, str]]:
    for name, of in avro_files.fields_of(schema).items():
        if isinstance(of, Mapping) and of.get("type") == "record":
            yield from _avro_types(f"{prefix}{name}_", of)
        else:
            yield f"{prefix}{name}", avro_files.spark_type(of)


# --- text -----------------------------------------------------------------------------------------


def _text(path: Path, kind: str, file: IO[bytes]) -> Sample:
    content = file.read(TEXT_BYTES)
    is_whole = not file.read(1)
    encoding = "utf-8"
    if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        encoding = "utf-16"
    try:
        # The piece may end within a character.
        text = codecs.getincrementaldecoder(encoding)().decode(content, final=is_whole)
    except UnicodeDecodeError:
        encoding = "latin-1"
        text = content.decode(encoding)
    if "\x00" in text or content.startswith((parquet_files.MAGIC, avro_files.MAGIC, b"PK\x03\x04")):
        raise UnreadableSampleError("not a text file")
    text = text.removeprefix("\ufeff")
    return Sample(path, kind, text=text if is_whole else _whole_records(text), encoding=encoding)


def _whole_records(text: str) -> str:
    """Cut a piece of a file after its last line that does not end within quotes."""
    end = text.rfind("\n")
    for _ in range(1_000):
        if end < 0 or text.count('"', 0, end) % 2 == 0:
            break
        end = text.rfind("\n", 0, end)
    return text[: end + 1] if end >= 0 else text


# The reader needs a feed, but uses only its encoding, and the text is already decoded.
_ANY_FEED = Feed("", "", "", "", format="debezium")


def _documents(sample: Sample) -> Iterator[Any]:
    found = itertools.islice(json_files.documents_of([sample.text], _ANY_FEED), ROWS)
    try:
        yield from (each for each in found if not isinstance(each, Broken))
    except (UnreadableFileError, RecursionError):
        # The piece ends within an array, or is nested too deeply.
        return


def delimiter_of(texts: Sequence[str]) -> str:
    """The delimiter that splits the records most evenly, or a comma."""
    best = (0.0, 0)
    found = ","
    for delimiter in DELIMITERS:
        widths = Counter(len(record) for text in texts for record in records(text, delimiter, 100))
        if not widths:
            continue
        # A few records may be broken, so the most frequent width counts.
        width, common = widths.most_common(1)[0]
        score = (round(common / widths.total(), 1), width)
        if width > 1 and score > best:
            best, found = score, delimiter
    return found


def csv_columns(text: str, delimiter: str) -> list[Column]:
    """The columns of a CSV text by position. A header counts as a record.

    Skips records whose width is not the most frequent one.
    """
    widths = Counter(len(record) for record in records(text, delimiter, 1_000))
    if not widths:
        return []
    names = [str(at) for at in range(widths.most_common(1)[0][0])]
    content = text.encode()
    try:
        table = pa.csv.read_csv(
            io.BytesIO(content),
            read_options=pa.csv.ReadOptions(
                column_names=names, use_threads=False, block_size=max(len(content) + 1, 1 << 20)
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=lambda _: "skip"
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=["", "NULL"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise UnreadableSampleError(f"not readable as CSV: {error}") from error
    return [Column(column.to_pylist(), is_loose=True) for column in table.columns]


def records(text: str, delimiter: str, limit: int) -> Iterator[list[str]]:
    """The fields of the first records of a CSV text, without blank lines."""
    try:
        records = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        yield from itertools.islice((record for record in records if record), limit)
    except csv.Error:
        return


def document_columns(rows: Iterable[Any]) -> dict[str, Column]:
    """The columns of documents. Objects are flattened as in landing."""
    found: dict[str, Column] = {}
    number = 0
    for row in rows:
        if not isinstance(row, Mapping):
            continue
        for name, value in documents.flattened(row, ()):
            column = found.setdefault(name, Column([None] * number))
            if len(column.values) == number:
                column.values.append(value)
        number += 1
        for column in found.values():
            if len(column.values) < number:
                column.values.append(None)
    # An object that is NULL in some documents is not a column.
    return {
        name: column
        for name, column in found.items()
        if any(value is not None for value in column.values)
        or not any(other.startswith(f"{name}_") for other in found)
    }


# --- types ----------------------------------------------------------------------------------------


def spark_type(name: str, columns: Iterable[Column]) -> str:
    """Infer the Spark type of a column from all its samples."""
    types: set[str] = set()
    loose: set[str] = set()
    texts: set[str] = set()
    numbers: set[str] = set()
    for column in columns:
        if column.type:
            types.add(column.type)
            continue
        if column.is_loose:
            loose.update(value for value in set(column.values) if value is not None)
            continue
        for value in column.values:
            if isinstance(value, Number):
                numbers.add(str.__str__(value))
            elif isinstance(value, str):
                texts.add(value)
            elif value is not None:
                types.add(_type_of_value(value))
    if loose:
        types.add(type_of_texts(loose, name))
    if numbers:
        types.add(_type_of_numbers(numbers) or "string")
    if texts:
        types.add(_type_of_times(texts) or "string")
    return reduce(wider, sorted(types)) if types else "string"


def odd_texts(columns: Iterable[Column]) -> list[str]:
    """One or two texts in a CSV column of numbers that are not numbers, probably mistakes."""
    texts = {value for column in columns if column.is_loose for value in column.values if value}
    odd = sorted(text for text in texts if not _NUMBER.fullmatch(text))
    return odd if 0 < len(odd) <= 2 and len(texts) >= 10 else []


def _type_of_value(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, datetime):
        return "timestamp" if value.tzinfo else "timestamp_ntz"
    return "string"


def type_of_texts(texts: Collection[str], name: str = "") -> str:
    """The narrowest type that fits every text: bigint, decimal, double, boolean, date, timestamp.

    Otherwise string, also for digits with a leading zero (`00123`) and for columns called zip,
    postcode, phone or similar, where a leading zero may come later.
    """
    if {text.lower() for text in itertools.islice(texts, 3)} <= {"true", "false"} and all(
        text.lower() in ("true", "false") for text in texts
    ):
        return "boolean"
    numbers = None if _NO_NUMBER.search(name.lower()) else _type_of_numbers(texts)
    return numbers or _type_of_times(texts) or "string"


def _type_of_numbers(texts: Collection[str]) -> str | None:
    """bigint, decimal for fixed-point or long numbers, or double.

    Numbers are fixed-point if all have the same number of decimals, at least two, and one ends with
    0 (floating-point numbers never do) or there are at least ten of them.
    """
    if not texts or not all(_NUMBER.fullmatch(text) for text in texts):
        return None
    if all(_WHOLE_NUMBER.fullmatch(text) for text in texts):
        if max(len(text.lstrip("+-")) for text in texts) > 38:
            return None
        fits = all(-(2**63) <= int(text) < 2**63 for text in texts)
        return "bigint" if fits else "decimal(38,0)"
    parts = [_FRACTION.fullmatch(text) for text in texts]
    scales = {len(part[2]) if part else 0 for part in parts}
    (scale, *others) = scales
    is_fixed = any(text.endswith("0") for text in texts) or len(texts) >= 10
    whole = max(len(part[1] or "") if part else 0 for part in parts)
    if others or scale < 2 or not is_fixed or whole + scale > 38:
        return "double"
    return f"decimal({18 if whole + scale <= 18 else 38},{scale})"


def _type_of_times(texts: Collection[str]) -> str | None:
    types = {_type_of_time(text) for text in texts}
    if not types or None in types:
        return None
    return "date" if types == {"date"} else "timestamp"


def _type_of_time(text: str) -> str | None:
    try:
        if _DATE.fullmatch(text):
            return "date" if date.fromisoformat(text) else None
        found = _TIMESTAMP.fullmatch(text)
        return "timestamp" if found and datetime.fromisoformat(found[1]) else None
    except ValueError:
        return None


def wider(one: str, other: str) -> str:
    """The narrowest type that holds the values of both types, or string."""
    if one == other:
        return one
    if {one, other} == {"date", "timestamp"} or {one, other} == {"timestamp", "timestamp_ntz"}:
        return "timestamp"
    if {one, other} == {"date", "timestamp_ntz"}:
        return "timestamp_ntz"
    if one in _WHOLE_TYPES and other in _WHOLE_TYPES:
        return max(one, other, key=_WHOLE_TYPES.index)
    sizes = [_whole_digits_and_scale(each) for each in (one, other)]
    if all(sizes):
        whole = max(size[0] for size in sizes if size)
        scale = max(size[1] for size in sizes if size)
        return f"decimal({whole + scale},{scale})" if whole + scale <= 38 else "double"
    numbers = [
        size or each in ("float", "double") for size, each in zip(sizes, (one, other), strict=True)
    ]
    return "double" if all(numbers) else "string"


def _whole_digits_and_scale(spark_type: str) -> tuple[int, int] | None:
    if spark_type in _DIGITS:
        return _DIGITS[spark_type], 0
    found = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", spark_type)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None
