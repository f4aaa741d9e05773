"""Read JSON files: one document per line, an array, concatenated, or over several lines."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from tidemark.feeds import Feed
from tidemark.readers import debezium, documents
from tidemark.readers.documents import Broken, Number
from tidemark.readers.records import Records, UnreadableFileError
from tidemark.readers.texts import bad_text, odd_characters, pieces_of
from tidemark.reasons import Reason, Why


def _object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(fields)
    if len(found) < len(fields):
        raise json.JSONDecodeError("two fields of an object have the same name", "", 0)
    return found


_DECODER = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=Number, object_pairs_hook=_object
)

# The maximum nesting of objects and lists. Python's limit is about 300.
DEEPEST = 200
# Escapes that are not valid text: NUL and lone surrogates; and the valid text before them.
_MAY_BE_ODD = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_PLAIN = re.compile(
    r"(?:[^\\]++|\\[^u]|\\u(?!0000|[dD][89a-fA-F])|\\u[dD][89abAB]..\\u[dD][c-fC-F])*+"
)
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[][{}]', re.DOTALL)


def read(file: IO[bytes], name: str, feed: Feed, kind: str) -> Iterator[Records]:
    """The records of a JSON file. `_position` counts from 1, including bad records."""
    found = documents_of(pieces_of(file, feed), feed)
    if feed.format == "debezium":
        return debezium.records(found, name, feed, {})
    return documents.records(found, feed)


def documents_of(pieces: Iterable[str], feed: Feed) -> Iterator[Any]:
    """The documents of a text that arrives in pieces. A Broken one extends to its line's end."""
    odd = odd_characters(feed)
    text = _Window(pieces)
    in_array = text.next_character() == "["
    if in_array:
        text.at += 1
    while character := text.next_character():
        if in_array and character in ",]":
            in_array = character == ","
            text.at += 1
            continue
        yield _document(text, odd)
    if in_array:
        raise UnreadableFileError(Why.ENDS_IN_ARRAY())


class _Window:
    """The unread rest of the text that has arrived so far."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self._pieces = iter(pieces)
        self.text = ""
        self.at = 0

    def next_character(self) -> str:
        """Go to the next character that is not whitespace. Return it, or '' at the end."""
        while True:
            while self.at < len(self.text):
                if self.text[self.at] not in " \t\r\n":
                    return self.text[self.at]
                self.at += 1
            if not self.read_on():
                return ""

    def read_on(self) -> bool:
        """Read more, and return whether there was more. Doubles the window, for long documents."""
        rest = self.text[self.at :]
        found, wanted = [rest], 2 * len(rest)
        length = len(rest)
        for piece in self._pieces:
            found.append(piece)
            length += len(piece)
            if length > wanted:
                break
        if len(found) == 1:
            return False
        self.text, self.at = "".join(found), 0
        return True


def _document(text: _Window, odd: Mapping[str, Reason]) -> Any:
    while True:
        try:
            document, end = _DECODER.raw_decode(text.text, text.at)
        except json.JSONDecodeError as error:
            if _may_go_on(error, text) and text.read_on():
                continue
            wrong: Reason | None = Why.NOT_JSON(error=error.msg)
            end = _end_of_line(text)
        except RecursionError:
            wrong, end = _TOO_DEEP, _end_of_deep(text)
        else:
            # A number may continue in the next piece, even after its decimal point.
            is_at_end = end + 2 * isinstance(document, Number) >= len(text.text)
            if is_at_end and text.read_on():
                continue
            wrong = _bad_document(text.text[text.at : end], odd)
        found = text.text[text.at : end]
        text.at = end
        return Broken.because(wrong, found.rstrip("\r")) if wrong else document


_TOO_DEEP = Why.TOO_DEEP(deepest=DEEPEST)


def _bad_document(found: str, odd: Mapping[str, Reason]) -> Reason | None:
    """Why a document is refused although it is JSON, or None."""
    if "\\u" in found and _MAY_BE_ODD.search(found):
        end = _PLAIN.match(found).end()  # type: ignore[union-attr]
        if end < len(found):
            is_nul = found.startswith("\\u0000", end)
            why = Why.HAS_ESCAPED_NUL if is_nul else Why.HAS_HALF_A_PAIR
            return why(escape=found[end : end + 6])
    # Count first, because it is fast.
    may_be_deep = found.count("{") + found.count("[") > DEEPEST
    if may_be_deep and max(depth for depth, _ in _depths(found, 0)) > DEEPEST:
        return _TOO_DEEP
    return bad_text(found, odd)


def _depths(text: str, at: int) -> Iterator[tuple[int, int]]:
    """The nesting depth after each bracket of a document, and the bracket's end position."""
    depth = 0
    for bracket in _BRACKET.finditer(text, at):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(bracket[0], 0)
        yield depth, bracket.end()


def _end_of_line(text: _Window) -> int:
    while (end := text.text.find("\n", text.at)) < 0 and text.read_on():
        pass
    return len(text.text) if end < 0 else end


def _end_of_deep(text: _Window) -> int:
    """The end of a document that is nested too deeply, or the end of its line."""
    while True:
        for depth, end in _depths(text.text, text.at):
            if depth == 0:
                return end
        if not text.read_on():
            return _end_of_line(text)


def _may_go_on(error: json.JSONDecodeError, text: _Window) -> bool:
    """Whether more text could fix the error, as it ends in a string or a word such as `true`."""
    return error.msg.startswith("Unterminated string") or error.pos > len(text.text) - 16
