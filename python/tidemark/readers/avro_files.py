"""Read Avro files into records, with fastavro. Each file has its own schema."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import fastavro
import fastavro.read

from tidemark.feeds import Feed
from tidemark.readers import debezium, documents
from tidemark.readers.records import Records, UnreadableFileError, is_of_machine
from tidemark.reasons import Why

MAGIC = b"Obj\x01"

_SPARK_TYPES = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
}


def _or_number(read: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `read`. A time that Python cannot represent, after the year 9999, stays a number."""

    def read_or_number(data: Any, *about: Any) -> Any:
        try:
            return read(data, *about)
        except (OverflowError, ValueError):
            return data

    return read_or_number


for _name, _read in list(fastavro.read.LOGICAL_READERS.items()):
    if _name.startswith(("int-", "long-")):
        fastavro.read.LOGICAL_READERS[_name] = _or_number(_read)


def read(file: IO[bytes], name: str, feed: Feed, kind: str) -> Iterator[Records]:
    """The records of an Avro file. `_position` counts from 1."""
    schema, found = documents_of(file)
    fields = fields_of(schema)
    if feed.format == "debezium":
        meanings = {name: meaning(of) for name, of in fields.items()}
        return debezium.records(found, name, feed, meanings)
    types = {name: spark_type(of) for name, of in fields.items()}
    return documents.records(found, feed, types)


def documents_of(file: IO[bytes]) -> tuple[Any, Iterator[Any]]:
    """The file's schema and its records.

    Raises UnreadableFileError if the file is damaged, possibly while the records are read.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise UnreadableFileError(Why.NOT_AVRO())
    file.seek(0)
    with _damage_told():
        found = fastavro.reader(file, handle_unicode_errors="tidemark")
    return found.writer_schema, _documents(found)


def _documents(found: Iterable[Any]) -> Iterator[Any]:
    with _damage_told():
        yield from found


@contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # damaged files raise many types
        if is_of_machine(error):
            raise
        reason = Why.AVRO_DAMAGED(str(error), error=type(error).__name__)
        raise UnreadableFileError(reason) from error


def fields_of(schema: Any) -> dict[str, Any]:
    """The types of a record's fields. For a Debezium envelope, those of the row in it."""
    if not isinstance(schema, Mapping):
        return {}
    fields = {field["name"]: _not_null(field["type"]) for field in schema.get("fields", [])}
    for row in ("after", "before"):
        if "op" in fields and isinstance(fields.get(row), Mapping) and "fields" in fields[row]:
            return fields_of(fields[row])
    return fields


def meaning(of: Any) -> tuple[str, int | None] | None:
    """A type's name in Kafka Connect, and a decimal's scale. None without a name."""
    if not isinstance(of, Mapping) or "connect.name" not in of:
        return None
    scale = of.get("scale", of.get("connect.parameters", {}).get("scale"))
    return of["connect.name"], None if scale is None else int(scale)


def spark_type(of: Any) -> str:
    """The Spark type of a field. `string` if the log has no better type."""
    if isinstance(of, Mapping):
        if of.get("logicalType") == "decimal" and of["precision"] <= 38:
            return f"decimal({of['precision']},{of.get('scale', 0)})"
        of = of.get("logicalType") or of.get("type")
    return _SPARK_TYPES.get(str(of), "string")


def _not_null(of: Any) -> Any:
    """The other type of a union with null."""
    if isinstance(of, list):
        others = [each for each in of if each != "null"]
        return others[0] if len(others) == 1 else None
    return of
