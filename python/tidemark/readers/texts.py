"""The bytes of a text file as text, and what is none in it."""

import codecs
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.feeds import Feed
from tidemark.readers.records import UnreadableFileError

# Bytes that are not text in the file's encoding become this, which is no character.
WRONG = "\ufdd0"
codecs.register_error("tidemark", lambda error: (WRONG, error.end))  # type: ignore[attr-defined]
# So many bytes are read at a time.
PIECE = 1 << 20
_MAGIC = {b"PAR1": "Parquet", b"Obj\x01": "Avro", b"PK\x03\x04": "a zip archive"}


def pieces_of(file: IO[bytes], feed: Feed) -> Iterator[str]:
    """The file's text from its start, piece by piece: it may be larger than memory.

    What is none becomes a character that `bad_text` finds. Raises UnreadableFileError for a file of
    another type.
    """
    file.seek(0)
    start = file.read(4)
    for magic, what in _MAGIC.items():
        if start.startswith(magic):
            raise UnreadableFileError(f"not a text file: it is {what}")
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and "16" not in feed.encoding:
        raise UnreadableFileError("not a text file in utf-8: it is UTF-16, see encoding")
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


def odd_characters(feed: Feed) -> dict[str, str]:
    """Why a text of a text file cannot be taken, by the character that it holds."""
    return {WRONG: f"not {feed.encoding}", "\x00": "holds a NUL character"}


def bad_text(value: str, odd: Mapping[str, str]) -> str | None:
    """Why a text cannot be taken; None when it can."""
    for character, reason in odd.items():
        if character in value:
            return reason
    return None


def _may_hold(column: pa.ChunkedArray | pa.Array, characters: Iterable[str]) -> bool:
    """Whether the bytes of a column hold one of them: a look that is much faster than at texts."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    contents = [chunk.buffers()[2] for chunk in chunks]
    raw = b"".join(content.to_pybytes() for content in contents if content)
    return any(character.encode() in raw for character in characters)


def bad_rows(
    columns: Iterable[pa.ChunkedArray | pa.Array], odd: Mapping[str, str]
) -> list[str | None] | None:
    """Why each row cannot be taken, when there is one such."""
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
