"""Errors for users: what is wrong, where, and what to do."""

import re
from collections.abc import Sequence

# Characters that move a terminal's cursor, change the text direction or start a line, and lone
# surrogates, which cannot be encoded.
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str, *, keep: str = "") -> str:
    """Escape the control characters of a text, for terminals, logs and messages.

    File names, column names and values may contain anything, so every text shown to a user goes
    through here. `keep` lists characters not to escape, such as intended line ends.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else _escaped(found[0]), text)


def _escaped(character: str) -> str:
    # Python decodes a byte that is not UTF-8 to one of these.
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


class TidemarkError(Exception):
    """An error that is printed as its message, without a stack trace."""

    def __str__(self) -> str:
        """The message, safe to print."""
        return printable(super().__str__(), keep="\n\t")


class ConfigError(TidemarkError):
    """A feed's declaration or the project's configuration is wrong."""


class DeclarationError(ConfigError):
    """A feed's declaration is wrong. `problems` are sentences."""

    def __init__(self, where: str, problems: Sequence[str]) -> None:
        super().__init__(f"{where}: {' '.join(problems)}")
        self.problems = [printable(problem) for problem in problems]


class SetupError(TidemarkError):
    """Something is missing on the machine: Java, a jar, a folder."""


class LakeBusyError(TidemarkError):
    """Another process is using the lake."""


def why_storage_failed(error: Exception) -> str:
    """A full disk, or what delta-rs says of storage that it cannot reach; '' for another error.

    The errors of delta-rs are a tree, and the cause is its last leaf. They are OSErrors or of its
    library's own type.
    """
    if not isinstance(error, OSError) and type(error).__module__ != "_internal":
        return ""
    text = re.sub(r"\x1b\[\d*m", "", str(error))
    lines = [line.strip(" ↳\t") for line in text.splitlines() if line.strip()]
    of_delta_rs = any(re.search("(^|: )(Generic |Kernel error)", line) for line in lines)
    if "No space left" in text:
        return f"No space is left on a disk ({lines[-1]})."
    return f"A table cannot be read or written: {': '.join(lines)}." if of_delta_rs else ""
