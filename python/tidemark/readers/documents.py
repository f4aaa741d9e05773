"""Read documents (JSON objects, Avro records, rows with structs) into records."""

import base64
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from tidemark.feeds import Feed
from tidemark.readers.records import (
    Names,
    Records,
    UnreadableFileError,
    WrongValueError,
    base64_of,
    folded,
    is_of_machine,
    named,
)
from tidemark.readers.texts import WRONG
from tidemark.reasons import Reason, Why

# MongoDB's extended JSON: an object with one such field represents its value.
_EXTENDED = ("$oid", "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal", "$uuid")


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")


class Number(str):
    """A number in a JSON document, with its digits as written."""

    __slots__ = ()


class Entries(list[tuple[Any, Any]]):
    """A map as ordered entries. Its JSON is an object, but it is not flattened into columns."""

    __slots__ = ()


class Broken(str):
    """Text that is not a valid document or value, with the reason."""

    reason: Reason

    @classmethod
    def because(cls, reason: Reason, text: str) -> "Broken":
        """Create one from a text and the reason."""
        broken = cls(text)
        broken.reason = reason
        return broken


def text_of(value: Any) -> str | None:
    """A value as text for the log: exact digits, binaries as base64, nested values as JSON."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        if value.tzinfo:
            return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ") + "Z"
        return value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Mapping | list | tuple):
        return json_of(value)
    return format(value, "f") if hasattr(value, "as_tuple") else str(value)


def told(value: Any) -> str | None:
    """A column's value as text for the log. Raises WrongValueError if it is invalid."""
    if isinstance(value, Broken):
        raise WrongValueError(value.reason)
    text = text_of(value)
    if text and WRONG in text:
        raise WrongValueError(Why.NOT_IN_ENCODING(encoding="utf-8"))
    return text


def json_of(value: Any) -> str:
    """A nested value as JSON text, with numbers as written."""
    value = unwrapped(value)
    if isinstance(value, Broken):
        return str(value)
    if isinstance(value, Mapping | Entries):
        items = value.items() if isinstance(value, Mapping) else value
        entries = (f"{json.dumps(text_of(name))}: {json_of(each)}" for name, each in items)
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(json_of(each) for each in value) + "]"
    if value is None:
        return "null"
    if isinstance(value, float):
        # Writes NaN, which JSON parsers know.
        return json.dumps(value)
    if isinstance(value, bool | int | Number):
        return str(text_of(value))
    return json.dumps(text_of(value), ensure_ascii=False)


def records(
    found: Iterable[Any], feed: Feed, types: Mapping[str, str] | None = None
) -> Iterator[Records]:
    """The records of an extract's documents. Objects are flattened: `{"a": {"b": 1}}` is `a_b`.

    An object in a declared column is kept as JSON text. `types` has the fields' types, if the file
    declares them.
    """
    return Records.in_parts(_rows(found, feed, types or {}))


def _rows(found: Iterable[Any], feed: Feed, types: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    known: dict[tuple[str, ...], Names] = {}
    kept_whole = {folded(name) for name in feed.column_names}

    def row_of(document: Any) -> dict[str, Any]:
        if not isinstance(document, Mapping):
            return refused(document)
        fields = list(flattened(document, kept_whole))
        found_names = tuple(name for name, _ in fields)
        if len(set(found_names)) < len(found_names):
            return {"_reason": Why.SAME_FLAT_NAME()}
        if found_names not in known:
            known[found_names] = named(found_names, feed, "changes", is_whole=False)
        return _by_names(fields, known[found_names], feed, types)

    for position, document in enumerate(found, 1):
        for row in rows_of(document, lambda each: [row_of(each)]):
            yield {"_position": position} | row


def rows_of(document: Any, read: Callable[[Any], list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """The rows that `read` returns for a document. An unexpected error becomes a bad row.

    A bad row contains the document.
    """
    try:
        rows = read(document)
    except Exception as error:
        if isinstance(error, UnreadableFileError) or is_of_machine(error):
            raise
        rows = [{"_reason": Why.UNREADABLE_RECORD(error=repr(error))}]
    for row in rows:
        if "_reason" in row and "_raw" not in row:
            with suppress(RecursionError):
                row["_raw"] = json_of(document)
        yield row


def refused(document: Any) -> dict[str, Any]:
    """The fields of a record that is not a document."""
    if isinstance(document, Broken):
        return {"_raw": str(document), "_reason": document.reason}
    return {"_reason": Why.NOT_AN_OBJECT()}


def _by_names(
    fields: Sequence[tuple[str, Any]], names: Names, feed: Feed, types: Mapping[str, str]
) -> dict[str, Any]:
    row: dict[str, Any] = {}
    values = [value for _, value in fields]
    for at, name in names.declared.items():
        try:
            in_text = name in feed.binary_columns and isinstance(values[at], str)
            row[name] = base64_of(values[at], feed) if in_text else told(values[at])
        except WrongValueError as error:
            row |= {"_reason": error.reason, "_column": name, "_value": text_of(values[at])}
    if names.op is not None:
        row["_source_op"] = text_of(values[names.op])
    if names.time is not None:
        row["_source_time"] = text_of(values[names.time])
    others = {}
    for at, name in names.others.items():
        try:
            if values[at] is not None:
                others[f"{name} {types.get(fields[at][0], 'string')}"] = told(values[at])
        except WrongValueError as error:
            row |= {"_reason": error.reason, "_column": name, "_value": text_of(values[at])}
    if others:
        row["_others"] = others
    return row


def flattened(
    document: Mapping[str, Any], kept_whole: Collection[str], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """The fields of a document; those of a nested object are prefixed with its name."""
    for name, value in document.items():
        value = unwrapped(value)
        full = f"{prefix}{name}"
        if isinstance(value, Mapping) and folded(full) not in kept_whole:
            yield from flattened(value, kept_whole, f"{full}_")
        else:
            yield full, value


def unwrapped(value: Any) -> Any:
    """The value of an object in MongoDB's extended JSON. Returns other values unchanged.

    Returns Broken if the object is invalid.
    """
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((name, inner),) = value.items()
    if name in _EXTENDED:
        is_number = name.startswith("$number") and isinstance(inner, str) and _NUMBER.match(inner)
        return Number(inner) if is_number else inner
    if name == "$date":
        since_1970 = unwrapped(inner)
        if since_1970 is not inner or isinstance(inner, Number):
            try:
                return EPOCH + timedelta(milliseconds=int(since_1970))
            except (TypeError, ValueError, OverflowError):
                text = f'{{"$date": {json_of(inner)}}}'
                return Broken.because(Why.DATE_OUT_OF_RANGE(), text)
        return inner
    if name == "$binary" and isinstance(inner, Mapping):
        if isinstance(inner.get("base64"), str):
            return inner["base64"]
        text = f'{{"$binary": {json_of(inner)}}}'
        return Broken.because(Why.BINARY_LACKS_BASE64(), text)
    return inner if name == "$binary" else value
