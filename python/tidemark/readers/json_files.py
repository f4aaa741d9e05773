"""JSON files to documents: one a line, in an array, one behind the other, or over several lines."""

import json
from collections.abc import Iterator
from typing import Any

from tidemark.feeds import Feed
from tidemark.readers import debezium, documents
from tidemark.readers.documents import Broken, Number
from tidemark.readers.records import Records, UnreadableFileError
from tidemark.readers.texts import bad_text, text_of


def _object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(fields)
    if len(found) < len(fields):
        raise json.JSONDecodeError("two fields of an object have the same name", "", 0)
    return found


_DECODER = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=Number, object_pairs_hook=_object
)


def read(content: bytes, name: str, feed: Feed, kind: str) -> Records:
    """The records of a JSON file; `_position` counts them from 1, bad ones included."""
    found = documents_of(text_of(content, feed), feed)
    if feed.format == "debezium":
        return debezium.records(found, name, feed, {})
    return documents.records(found, feed)


def documents_of(text: str, feed: Feed) -> Iterator[Any]:
    """The documents of a text; a Broken one up to the end of its line."""
    at = _next(text, 0)
    in_array = text.startswith("[", at)
    if in_array:
        at = _next(text, at + 1)
    while at < len(text):
        if in_array and text[at] in ",]":
            in_array = text[at] == ","
            at = _next(text, at + 1)
            continue
        try:
            document, end = _DECODER.raw_decode(text, at)
            wrong = bad_text(text[at:end], feed)
        except json.JSONDecodeError as error:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            wrong = f"not JSON: {error.msg}"
        yield Broken.because(wrong, text[at:end].rstrip("\r")) if wrong else document
        at = _next(text, end)
    if in_array:
        raise UnreadableFileError("the JSON array has no end")


def _next(text: str, at: int) -> int:
    """The next place that is no blank."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
