"""JSON files to documents: one a line, in an array, one behind the other, or over several lines."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from tidemark.feeds import Feed
from tidemark.readers import debezium, documents
from tidemark.readers.documents import Broken, Number
from tidemark.readers.records import Records, UnreadableFileError
from tidemark.readers.texts import bad_text, odd_characters, pieces_of


def _object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(fields)
    if len(found) < len(fields):
        raise json.JSONDecodeError("two fields of an object have the same name", "", 0)
    return found


_DECODER = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=Number, object_pairs_hook=_object
)

# Objects and lists within one another, at most: Python could go to about 300.
DEEPEST = 200
# Escapes that stand for no text: NUL, and half of a pair of surrogates. What stands before them.
_MAY_BE_ODD = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_PLAIN = re.compile(
    r"(?:[^\\]++|\\[^u]|\\u(?!0000|[dD][89a-fA-F])|\\u[dD][89abAB]..\\u[dD][c-fC-F])*+"
)
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[][{}]', re.DOTALL)


def read(file: IO[bytes], name: str, feed: Feed, kind: str) -> Iterator[Records]:
    """The records of a JSON file; `_position` counts them from 1, bad ones included."""
    found = documents_of(pieces_of(file, feed), feed)
    if feed.format == "debezium":
        return debezium.records(found, name, feed, {})
    return documents.records(found, feed)


def documents_of(pieces: Iterable[str], feed: Feed) -> Iterator[Any]:
    """The documents of a text, which comes in pieces; a Broken one up to the end of its line."""
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
        raise UnreadableFileError("the JSON array has no end")


class _Window:
    """What is left to read of a text, as far as it has come."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self._pieces = iter(pieces)
        self.text = ""
        self.at = 0

    def next_character(self) -> str:
        """Go to the next character that is no blank; '' when there is none."""
        while True:
            while self.at < len(self.text):
                if self.text[self.at] not in " \t\r\n":
                    return self.text[self.at]
                self.at += 1
            if not self.read_on():
                return ""

    def read_on(self) -> bool:
        """Whether there was more. Each time it is as much again, for long documents' sake."""
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


def _document(text: _Window, odd: Mapping[str, str]) -> Any:
    while True:
        try:
            document, end = _DECODER.raw_decode(text.text, text.at)
        except json.JSONDecodeError as error:
            if _may_go_on(error, text) and text.read_on():
                continue
            wrong: str | None = f"not JSON: {error.msg}"
            end = _end_of_line(text)
        except RecursionError:
            wrong, end = _TOO_DEEP, _end_of_deep(text)
        else:
            # A number may go on, also behind its point.
            is_at_end = end + 2 * isinstance(document, Number) >= len(text.text)
            if is_at_end and text.read_on():
                continue
            wrong = _bad_document(text.text[text.at : end], odd)
        found = text.text[text.at : end]
        text.at = end
        return Broken.because(wrong, found.rstrip("\r")) if wrong else document


_TOO_DEEP = f"objects and lists stand within one another more than {DEEPEST} times"


def _bad_document(found: str, odd: Mapping[str, str]) -> str | None:
    """Why a document cannot be taken, though it is JSON; None when it can."""
    if "\\u" in found and _MAY_BE_ODD.search(found):
        end = _PLAIN.match(found).end()  # type: ignore[union-attr]
        if end < len(found):
            is_nul = found.startswith("\\u0000", end)
            what = "a NUL character" if is_nul else "half a surrogate pair"
            return f"holds {what} ({found[end : end + 6]})"
    # Counting comes first: it is fast.
    may_be_deep = found.count("{") + found.count("[") > DEEPEST
    if may_be_deep and max(depth for depth, _ in _depths(found, 0)) > DEEPEST:
        return _TOO_DEEP
    return bad_text(found, odd)


def _depths(text: str, at: int) -> Iterator[tuple[int, int]]:
    """How many objects and lists are open behind each bracket of a document, and where that is."""
    depth = 0
    for bracket in _BRACKET.finditer(text, at):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(bracket[0], 0)
        yield depth, bracket.end()


def _end_of_line(text: _Window) -> int:
    while (end := text.text.find("\n", text.at)) < 0 and text.read_on():
        pass
    return len(text.text) if end < 0 else end


def _end_of_deep(text: _Window) -> int:
    """The end of a document that is too deep to be read; of its line, when it has none."""
    while True:
        for depth, end in _depths(text.text, text.at):
            if depth == 0:
                return end
        if not text.read_on():
            return _end_of_line(text)


def _may_go_on(error: json.JSONDecodeError, text: _Window) -> bool:
    """Whether the text ends where it is wrong: within a string, or within a word such as `true`."""
    return error.msg.startswith("Unterminated string") or error.pos > len(text.text) - 16
