"""The bytes of a text file as text, and what is none in it."""

import codecs

from tidemark.feeds import Feed
from tidemark.readers.records import UnreadableFileError

# Bytes that are not text in the file's encoding become this, which is no character.
WRONG = "\ufdd0"
codecs.register_error("tidemark", lambda error: (WRONG, error.end))  # type: ignore[attr-defined]
_MAGIC = {b"PAR1": "Parquet", b"Obj\x01": "Avro", b"PK\x03\x04": "a zip archive"}


def text_of(content: bytes, feed: Feed) -> str:
    """The file's text; what is none becomes a character that `bad_text` finds.

    Raises UnreadableFileError for a file of another type.
    """
    for magic, what in _MAGIC.items():
        if content.startswith(magic):
            raise UnreadableFileError(f"not a text file: it is {what}")
    if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and "16" not in feed.encoding:
        raise UnreadableFileError("not a text file in utf-8: it is UTF-16, see encoding")
    try:
        text = content.decode(feed.encoding)
    except UnicodeDecodeError:
        text = content.decode(feed.encoding, "tidemark")
    return text.removeprefix("\ufeff")


def bad_text(value: str, feed: Feed) -> str | None:
    """Why a text cannot be taken; None when it can."""
    if WRONG in value:
        return f"not {feed.encoding}"
    return "holds a NUL character" if "\x00" in value else None
