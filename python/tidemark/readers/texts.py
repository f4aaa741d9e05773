"""Decode text files, and find invalid text in them."""

import codecs
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.feeds import Feed
from tidemark.readers.records import UnreadableFileError
from tidemark.reasons import Reason, Why

# Replaces bytes that are invalid in the file's encoding. It is a noncharacter.
WRONG = "\ufdd0"
codecs.register_error("tidemark", lambda error: (WRONG, error.end))  # type: ignore[attr-defined]
# The number of bytes to read at a time.
PIECE = 1 << 20
_MAGIC = {b"PAR1": "Parquet", b"Obj\x01": "Avro", b"PK\x03\x04": "a zip archive"}


def pieces_of(file: IO[bytes], feed: Feed) -> Iterator[str]:
    """The file's text, piece by piece, because it may be larger than memory.

    Invalid bytes become a character that `bad_text` finds. Raises UnreadableFileError if the file
    has another type.
    """
    file.seek(0)
    start = file.read(4)
    for magic, what in _MAGIC.items():
        if start.startswith(magic):
            raise UnreadableFileError(Why.NOT_TEXT(what=what))
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and "16" not in feed.encoding:
        raise UnreadableFileError(Why.UTF_16())
    decoder = codecs.getincrementaldecoder(feed.encoding)("tidemark")
    file.seek(0)
    is_first = True
    while content := file.read(PIECE):
        text = decoder.decode(content)
        if text:
            yield text.removeprefix("\ufeff") if is_first else text
            is_first = False
    rest = decoder.decode(b"", final=True)
    if rest:
        yield rest


def odd_characters(feed: Feed) -> dict[str, Reason]:
    """The characters that make a text invalid, each with the reason."""
    return {WRONG: Why.NOT_IN_ENCODING(encoding=feed.encoding), "\x00": Why.HAS_NUL()}


def bad_text(value: str, odd: Mapping[str, Reason]) -> Reason | None:
    """Why a text is invalid, or None."""
    for character, reason in odd.items():
        if character in value:
            return reason
    return None


def _may_hold(column: pa.ChunkedArray | pa.Array, characters: Iterable[str]) -> bool:
    """Whether a column may contain one of the characters. Searching bytes is much faster."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    contents = [chunk.buffers()[2] for chunk in chunks]
    raw = b"".join(content.to_pybytes() for content in contents if content)
    return any(character.encode() in raw for character in characters)


def bad_rows(
    columns: Iterable[pa.ChunkedArray | pa.Array], odd: Mapping[str, Reason]
) -> list[Reason | None] | None:
    """The reason per row, or None if all rows are valid."""
    columns = [column for column in columns if _may_hold(column, odd)]
    pattern = "|".join(f"\\x{{{ord(character):x}}}" for character in odd)
    is_bad = None
    for column in columns:
        found = pc.match_substring_regex(column, pattern)
        is_bad = found if is_bad is None else pc.or_kleene(is_bad, found)
    if is_bad is None or not pc.any(is_bad).as_py():
        return None
    rows = zip(is_bad.to_pylist(), *(column.to_pylist() for column in columns), strict=True)
    return [
        next(reason for text in texts if text and (reason := bad_text(text, odd)))
        if wrong
        else None
        for wrong, *texts in rows
    ]
