"""Read Debezium events, enveloped or flattened, into records.

The rules come from Debezium's documentation of its connectors and of the transform
ExtractNewRecordState, and from Kafka Connect's JSON, Avro and Parquet converters.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from tidemark.feeds import Feed
from tidemark.readers import documents
from tidemark.readers.documents import EPOCH, Broken, Entries, Number, text_of, told
from tidemark.readers.records import (
    Names,
    Records,
    UnreadableFileError,
    WrongValueError,
    base64_of,
    named,
)
from tidemark.reasons import Why

OPERATIONS = {"c": "I", "u": "U", "d": "D", "r": "R", "t": "T"}
# Microseconds per unit, as a fraction.
_MICROS = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}
UNITS = {
    "io.debezium.time.Timestamp": "milliseconds",
    "org.apache.kafka.connect.data.Timestamp": "milliseconds",
    "io.debezium.time.MicroTimestamp": "microseconds",
    "io.debezium.time.NanoTimestamp": "nanoseconds",
}
TIMES = {
    "io.debezium.time.Time": "milliseconds",
    "org.apache.kafka.connect.data.Time": "milliseconds",
    "io.debezium.time.MicroTime": "microseconds",
    "io.debezium.time.NanoTime": "nanoseconds",
}
_DECIMALS = ("org.apache.kafka.connect.data.Decimal", "io.debezium.data.VariableScaleDecimal")
# PostgreSQL's maximum, the largest of all sources. Numbers are written digit by digit.
_LARGEST_SCALE = 16_383
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_OFFSET = re.compile(r"\+\d+\+(\d+)(\.[A-Za-z.]+)?$")
_OTHER_OFFSET = re.compile(r"(?:^|-)(\d+)(\.[A-Za-z.]+)?$")

# A column's type name in Kafka Connect, and a decimal's scale.
Meaning = tuple[str, int | None]
Row = dict[str, Any]


@dataclass(frozen=True)
class _Event:
    """The content of an event, enveloped or flattened."""

    op: str | None
    row: Mapping[str, Any]
    source: Mapping[str, Any]
    times: tuple[Mapping[str, Any], ...]
    old_row: Mapping[str, Any] | None = None


def offset_in(name: str, feed: Feed) -> int | None:
    """The Kafka offset of a file's first record, from the name that the sink wrote, or None."""
    found = _OFFSET.search(name)
    if not found and feed.is_by_offset:
        found = _OTHER_OFFSET.search(name)
    return int(found[1]) if found else None


def records(
    found: Iterable[Any], name: str, feed: Feed, meanings: Mapping[str, Meaning | None]
) -> Iterator[Records]:
    """The records of a file's events. `meanings` has the types that the file declares."""
    offset = offset_in(name, feed)
    if offset is None and feed.is_by_offset:
        raise UnreadableFileError(Why.NO_OFFSET())
    return Records.in_parts(_all_rows(found, offset, feed, meanings))


def _all_rows(
    found: Iterable[Any], offset: int | None, feed: Feed, meanings: Mapping[str, Meaning | None]
) -> Iterator[Row]:
    known: dict[tuple[str, ...], Names] = {}

    def names_of(row: Mapping[str, Any]) -> Names:
        columns = tuple(row)
        if columns not in known:
            known[columns] = named(columns, feed, "changes", is_whole=False)
        return known[columns]

    def read(document: Any) -> list[Row]:
        return _rows(document, feed, meanings, names_of)

    for position, document in enumerate(found, 1):
        for row in documents.rows_of(document, read):
            row["_position"] = position
            if feed.is_by_offset and offset is not None:
                row["_sequence"] = f"{offset + position - 1:020d}"
            yield row


def _rows(
    document: Any,
    feed: Feed,
    meanings: Mapping[str, Meaning | None],
    names_of: Callable[[Mapping[str, Any]], Names],
) -> list[Row]:
    """The rows of one event: one, or two if it changes the key."""
    if isinstance(document, Broken):
        return [documents.refused(document)]
    if isinstance(document, Mapping) and set(document) == {"schema", "payload"}:
        meanings = _meanings(document["schema"])
        document = document["payload"]
    if document is None or document == {}:
        return [{"_skipped": "tombstone"}]
    if not isinstance(document, Mapping):
        return [documents.refused(document)]
    skipped = no_change(document, feed.field_prefix)
    if skipped:
        return [{"_skipped": skipped}]
    try:
        event = _event(document, feed)
        return _of_event(event, feed, meanings, names_of)
    except WrongValueError as error:
        return [{"_reason": error.reason}]


def _of_event(
    event: _Event,
    feed: Feed,
    meanings: Mapping[str, Meaning | None],
    names_of: Callable[[Mapping[str, Any]], Names],
) -> list[Row]:
    op = OPERATIONS.get(event.op or "", event.op)
    snapshot = str(event.source.get("snapshot", "false")).lower()
    position = position_of(event.source)
    is_snapshot = op == "R" or snapshot not in ("false", "none", "incremental")
    if is_snapshot and op in ("I", "U"):
        op = "R"
    by_position = feed.sequence == ("source",)
    # A row of an incremental snapshot with a position is ordered among the changes.
    if snapshot == "incremental" and position is not None:
        is_snapshot = False
    shared: Row = {"_source_op": op, "_source_time": _time(event.times)}
    # By offset, a repeated snapshot is ordered by when it was written.
    shared["_is_snapshot"] = is_snapshot and not feed.is_by_offset
    if by_position:
        shared["_sequence"] = position
        if position is None and not is_snapshot:
            shared["_reason"] = Why.NO_POSITION()
    row = _columns(event.row, op, feed, meanings, names_of)
    if op != "U" or not event.old_row:
        return [shared | row]
    old = _columns(event.old_row, "D", feed, meanings, names_of)
    if all(old.get(name) in (None, row.get(name)) for name in feed.key):
        return [shared | row]
    # Rule 9: a changed key is a delete of the old key and an insert of the new one. The new key has
    # no earlier change that could supply an unavailable value.
    row = {name: None if text == feed.unavailable_value else text for name, text in row.items()}
    return [shared | old | {"_source_op": "D"}, shared | row | {"_source_op": "I"}]


def _columns(
    row: Mapping[str, Any],
    op: str | None,
    feed: Feed,
    meanings: Mapping[str, Meaning | None],
    names_of: Callable[[Mapping[str, Any]], Names],
) -> Row:
    """The columns as text. Of a delete only key and sequence: connectors fill in the rest."""
    if op == "T":
        return {}
    names = names_of(row)
    values = list(row.values())
    columns: Row = {}
    types = {column.name: column.type for column in feed.columns}
    keys = list(row)
    for at, name in names.declared.items():
        if op == "D" and name not in (*feed.key, *feed.sequence_columns):
            continue
        value = values[at]
        if name not in feed.key and is_unavailable(value, feed.unavailable_value):
            # A new row, such as one with a changed key, has no earlier value.
            columns[name] = feed.unavailable_value if op == "U" else None
            continue
        try:
            columns[name] = decoded(value, name, types[name], meanings.get(keys[at]), feed)
        except WrongValueError as error:
            columns |= {"_reason": error.reason, "_column": name, "_value": text_of(value)}
    others = {}
    for at, name in names.others.items():
        try:
            if values[at] is not None and op != "D":
                others[f"{name} string"] = told(values[at])
        except WrongValueError as error:
            columns |= {"_reason": error.reason, "_column": name, "_value": text_of(values[at])}
    return columns | ({"_others": others} if others else {})


# --- shapes -------------------------------------------------------------------------------------


def no_change(document: Mapping[str, Any], field_prefix: str) -> str | None:
    """The kind of a message that contains no row change. None for a row change."""
    if any(name.startswith(field_prefix) for name in document):
        # A flattened row, whatever its column names are.
        return None
    if document.get("op") == "m" and "source" in document:
        return "message"
    if "ddl" in document and ("databaseName" in document or "tableChanges" in document):
        return "schema change"
    if document.get("status") in ("BEGIN", "END") and "event_count" in document:
        return "transaction"
    return "heartbeat" if set(document) <= {"ts_ms", "ts_us", "ts_ns"} else None


def _event(document: Mapping[str, Any], feed: Feed) -> _Event:
    if "op" in document and isinstance(document.get("source"), Mapping):
        return _enveloped(document)
    event = flattened(document, feed.field_prefix)
    if not event.source and not feed.upserts_only:
        raise WrongValueError(Why.NO_EVENT(prefix=feed.field_prefix))
    return event


def flattened(document: Mapping[str, Any], prefix: str) -> _Event:
    """The event in a row to which ExtractNewRecordState has added fields with this prefix."""
    about = {name[len(prefix) :]: v for name, v in document.items() if name.startswith(prefix)}
    row = {name: value for name, value in document.items() if not name.startswith(prefix)}
    source = {name.removeprefix("source_"): value for name, value in about.items()}
    of_source = {n.removeprefix("source_"): v for n, v in about.items() if n.startswith("source_")}
    op = text_of(about.get("op")) or "u"
    if str(text_of(about.get("deleted"))).lower() == "true":
        op = "d"
    return _Event(op, row, source, (of_source, about))


def _enveloped(document: Mapping[str, Any]) -> _Event:
    op = text_of(document["op"])
    before, after = document.get("before"), document.get("after")
    source = document["source"]
    times = (source, document)
    if op == "t":
        return _Event(op, {}, source, times)
    row = before if op == "d" else after
    if not isinstance(row, Mapping):
        image = "before" if op == "d" else "after"
        raise WrongValueError(Why.NO_ROW_IMAGE(operation=op, image=image))
    return _Event(op, row, source, times, before if isinstance(before, Mapping) else None)


def fields_of(schema: Any) -> dict[str, Mapping[str, Any]]:
    """The fields of the row in the schema that Connect's JSON converter writes."""
    fields = schema.get("fields") or [] if isinstance(schema, Mapping) else []
    by_name = {str(field.get("field")): field for field in fields if isinstance(field, Mapping)}
    for image in ("after", "before"):
        if "op" in by_name and by_name.get(image, {}).get("fields"):
            return fields_of(by_name[image])
    return by_name


def _meanings(schema: Any) -> dict[str, Meaning | None]:
    """The types in the schema that Connect's JSON converter writes next to the payload."""
    found: dict[str, Meaning | None] = {}
    for name, field in fields_of(schema).items():
        scale = (field.get("parameters") or {}).get("scale")
        if field.get("name"):
            found[name] = (field["name"], None if scale is None else int(scale))
    return found


# --- place and time -----------------------------------------------------------------------------


def position_of(source: Mapping[str, Any]) -> str | None:
    """A change's position in the source's log, as sortable text. None if it is not known.

    PostgreSQL: lsn, or the second one in sequence, which the rows of an incremental snapshot have
    alone: it is the end of the window in which they were read. MySQL and MariaDB: number of the
    file, position, row. SQL Server: commit and change LSN, event number. Oracle: commit SCN, SCN,
    rs_id, ssn.
    """
    try:
        if source.get("commit_lsn") or source.get("change_lsn"):
            serial = int(source.get("event_serial_no") or 0)
            return f"{source.get('commit_lsn')}|{source.get('change_lsn')}|{serial:010d}"
        if source.get("lsn") is not None:
            return f"{int(source['lsn']):020d}"
        if source.get("file") and source.get("pos") is not None:
            suffix = int(str(source["file"]).rpartition(".")[2])
            return f"{suffix:010d}|{int(source['pos']):020d}|{int(source.get('row') or 0):010d}"
        if source.get("scn") is not None or source.get("commit_scn") is not None:
            commit, scn = (int(source.get(name) or 0) for name in ("commit_scn", "scn"))
            rest = f"{source.get('rs_id') or '':<40}|{int(source.get('ssn') or 0):010d}"
            return f"{commit:020d}|{scn:020d}|{rest}"
        # Last: it is PostgreSQL's, but a field of other connectors, too.
        if source.get("sequence"):
            return f"{int(json.loads(source['sequence'])[-1]):020d}"
    except (TypeError, ValueError, LookupError):
        return None
    return None


def _time(times: Iterable[Mapping[str, Any]]) -> str | None:
    """The time of the change in the database, or else the connector's time."""
    for where in times:
        for name, unit in (
            ("ts_ns", "nanoseconds"),
            ("ts_us", "microseconds"),
            ("ts_ms", "milliseconds"),
        ):
            value = where.get(name)
            if value not in (None, 0, "0"):
                return _moment(value, unit) + "Z" if is_number(value) else text_of(value)
    return None


def _moment(value: Any, unit: str) -> str:
    """A number since 1970 as a timestamp. Outside the years 1 to 9999, the number as text."""
    times, divisor = _MICROS[unit]
    try:
        micros = int(value) * times // divisor
        return (EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat(" ")
    except (OverflowError, ValueError):
        return str(value)


def _time_of_day(value: Any, unit: str) -> str:
    """A number since midnight as text. MySQL's may be negative, or longer than a day."""
    times, divisor = _MICROS[unit]
    try:
        number = int(value)
    except ValueError:
        return str(value)
    seconds, fraction = divmod(abs(number) * times // divisor, 1_000_000)
    minutes, second = divmod(seconds, 60)
    sign = "-" if number < 0 else ""
    text = f"{sign}{minutes // 60:02}:{minutes % 60:02}:{second:02}"
    return f"{text}.{fraction:06}" if fraction else text


# --- values -------------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    """Whether a value is a number, not a text that looks like one."""
    return isinstance(value, int | Number) and not isinstance(value, bool)


def decoded(
    value: Any, name: str, data_type: str, meaning: Meaning | None, feed: Feed
) -> str | None:
    """The value of a column as text in the form of its declared type.

    Raises WrongValueError if the value is ambiguous without a setting.
    """
    what, scale = meaning or ("", None)
    if value is None:
        return None
    has_scale = isinstance(value, Mapping) and set(value) == {"scale", "value"}
    if data_type.startswith("decimal") or what in _DECIMALS or has_scale:
        return _decimal(value, data_type, scale, what, feed)
    if data_type == "date" and is_number(value):
        try:
            return (date(1970, 1, 1) + timedelta(days=int(value))).isoformat()
        except (OverflowError, ValueError):
            return str(value)
    if data_type == "date" and re.fullmatch(r"[0-9-]+Z", str(value)):
        # io.debezium.time.IsoDate
        return str(value).removesuffix("Z")
    if data_type.startswith("timestamp") and is_number(value):
        unit = UNITS.get(what) or feed.unit_of(name)
        if not unit:
            raise WrongValueError(Why.NO_UNIT())
        return _moment(value, unit)
    if what in TIMES and is_number(value):
        return _time_of_day(value, TIMES[what])
    if data_type == "binary" and isinstance(value, str):
        return base64_of(value, feed)
    return told(value)


def _decimal(value: Any, data_type: str, scale: int | None, what: str, feed: Feed) -> str | None:
    if isinstance(value, Mapping) and {"scale", "value"} <= set(value):
        inner = value["value"]
        unscaled = inner if isinstance(inner, bytes) else _bytes(str(inner))
        return _scaled(unscaled, int(value["scale"]))
    if isinstance(value, bytes | str) and not isinstance(value, Number):
        if scale is None:
            declared = re.search(r", ?(\d+)\)$", data_type)
            scale = int(declared[1]) if declared else 0
        if isinstance(value, bytes):
            return _scaled(value, scale)
        is_base64 = _BASE64.fullmatch(value) is not None and value != ""
        is_text = _NUMBER.fullmatch(value) is not None
        if what in _DECIMALS or feed.decimals == "base64":
            return _scaled(_bytes(value), scale)
        if feed.decimals != "text" and is_base64 and is_text:
            raise WrongValueError(Why.BASE64_OR_NUMBER())
        if feed.decimals != "text" and is_base64:
            return _scaled(_bytes(value), scale)
    return text_of(value)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise WrongValueError(Why.NOT_BASE64()) from None


def _scaled(unscaled: bytes, scale: int) -> str:
    """A decimal of Kafka Connect: a big-endian two's complement number with a scale."""
    if abs(scale) > _LARGEST_SCALE:
        raise WrongValueError(Why.INVALID_SCALE(scale=scale))
    sign, figures, _ = Decimal(int.from_bytes(unscaled, "big", signed=True)).as_tuple()
    return format(Decimal((sign, figures, -scale)), "f")


def is_unavailable(value: Any, placeholder: str | None) -> bool:
    """Whether a value is the placeholder for a value that the source did not log, in any form.

    The forms are those of Debezium's class UnchangedToastedPlaceholder: the text, its bytes, an
    array with the text or with the byte codes, a UUID of the bytes, a map of the text to itself.
    """
    if not placeholder or value is None or isinstance(value, bool | int | float | Number):
        return False
    raw = placeholder.encode()
    if isinstance(value, list) and not isinstance(value, Entries):
        one = len(value) == 1 and is_unavailable(value[0], placeholder)
        return one or [text_of(each) for each in value] == [str(code) for code in raw]
    if isinstance(value, Mapping | Entries):
        return dict(value) == {placeholder: placeholder}
    texts = {placeholder, base64.b64encode(raw).decode(), raw.hex(), str(_uuid(raw))}
    return value == raw or str(text_of(value)) in texts


def _uuid(raw: bytes) -> UUID:
    return UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)
