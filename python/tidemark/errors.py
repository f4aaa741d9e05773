"""Errors that a person can act on: what is wrong, where, and what to do."""

import re

# What moves a terminal's cursor, turns the direction of writing, or begins a line; and halves of
# characters, which cannot be written at all.
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str, *, keep: str = "") -> str:
    """A text with its control characters escaped, for terminals, logs and messages.

    Names of files, columns and values may hold anything. All of it goes through here before a
    person sees it. `keep` are characters that stay, such as line ends where they are meant.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else _escaped(found[0]), text)


def _escaped(character: str) -> str:
    # What Python makes of a byte that is not UTF-8.
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


class TidemarkError(Exception):
    """Printed as its message alone, without a stack trace."""

    def __str__(self) -> str:
        """The message, safe to print."""
        return printable(super().__str__(), keep="\n\t")


class ConfigError(TidemarkError):
    """A feed's declaration, or the project around it, is wrong."""


class SetupError(TidemarkError):
    """The machine lacks something: Java, a jar, a folder."""


class LakeBusyError(TidemarkError):
    """Another process is writing to the lake."""
