"""The bytes of a text file as text, and what is none in it."""

import codecs
from collections.abc import Iterator
from typing import IO

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


def bad_text(value: str, feed: Feed) -> str | None:
    """Why a text cannot be taken; None when it can."""
    if WRONG in value:
        return f"not {feed.encoding}"
    return "holds a NUL character" if "\x00" in value else None
