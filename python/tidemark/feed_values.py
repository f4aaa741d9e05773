"""The values of a feed's settings: which ones the YAML may have, and how they are read."""

import codecs
import difflib
import re
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from tidemark.errors import ConfigError

# What a row can do, by the setting `operations`.
_OPERATIONS = ("I", "U", "D", "T", "skip")
_UNITS = ("milliseconds", "microseconds", "nanoseconds")

_TIME_PARTS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?")
_A_TIME = "a time (UTC), such as 2024-03-01 12:00:00"
_SPAN = re.compile(r"(\d{1,9}) (second|minute|hour|day|week)s?")
_LONGEST = timedelta(days=365 * 1000)


class _WrongError(ValueError):
    """A value that a setting does not take; the text continues after the setting's name."""


@dataclass(frozen=True)
class Values:
    """The values of a setting: in words, for messages and docs/feeds.md, and as code.

    Examples in the words stand in single quotes. `convert` gives the value as Feed has it, or
    raises ValueError. With `are_columns` the values are names of the table's columns.
    """

    wanted: str
    convert: Callable[[Any], Any]
    are_columns: bool = False

    def read(self, name: str, value: Any) -> Any:
        """The value of the setting `name`, as Feed has it. Raises ConfigError with a sentence."""
        try:
            return self.convert(value)
        except (ValueError, TypeError, OverflowError) as error:
            why, told = f"must be {self.wanted}", value
            if isinstance(error, _WrongError):
                why, told = error.args if len(error.args) > 1 else (error.args[0], value)
            end = "" if why[-1] in ".?" else "."
            raise ConfigError(f"{name} '{told}' {why}{end}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _WrongError("must be text: write it in quotes")
    if not value.strip():
        raise _WrongError("is empty: give it a value, or leave it out")
    return value


def one_of(*allowed: str) -> Values:
    """A choice of texts."""

    def convert(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise _WrongError(
                f"is unknown: use one of {', '.join(allowed)}.{guess(value, allowed)}"
            )
        return value

    return Values(_quoted(allowed), convert)


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(f"'{text}'" for text in texts)


def guess(value: Any, allowed: Iterable[str]) -> str:
    """A question with the allowed text that is most like this one; '' without such a text."""
    found = difflib.get_close_matches(str(value), list(allowed), n=1)
    return f" Did you mean '{found[0]}'?" if found else ""


def _if(holds: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """Reads a value for which a test holds."""

    def read(value: Any) -> Any:
        if not holds(value):
            raise ValueError
        return value

    return read


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        value = [value]
    found = tuple(_name(each) for each in value)
    if len(set(found)) < len(found):
        raise _WrongError("names a column twice")
    return found


def _flag_or_names(value: Any) -> bool | tuple[str, ...]:
    return value if isinstance(value, bool) else _names(value)


def _null_texts(value: Any) -> tuple[str, ...]:
    found = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not all(isinstance(each, str) for each in found):
        raise _WrongError("must be a text or a list of texts: write each in quotes, NULL too")
    return found


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError
    return float(value)


def _folder(value: Any) -> str:
    folder = _text(value)
    if folder.startswith("/") or ".." in folder.split("/"):
        raise _WrongError("must stay below the landing folder")
    return folder


def _time(value: Any) -> str:
    """A time as text in UTC; YAML makes dates of texts."""
    text = str(value)
    if isinstance(value, bool | int | float) or not _TIME.fullmatch(text):
        raise ValueError
    at = datetime.fromisoformat(text)
    return (at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at).isoformat(" ")


def _times(value: Any) -> tuple[str, ...]:
    told = value if isinstance(value, list | tuple) else (value,)
    found = []
    for each in told:
        try:
            found.append(_time(each))
        except (ValueError, OverflowError):
            raise _WrongError(f"must be {_A_TIME}", each) from None
    return tuple(found)


def span(value: Any) -> timedelta:
    """A length of time such as `7 days` or `36 hours`. Raises ValueError for anything else."""
    found = _SPAN.fullmatch(value) if isinstance(value, str) else None
    length = timedelta(**{f"{found[2]}s": int(found[1])}) if found else _LONGEST
    if not found or length > _LONGEST:
        raise ValueError
    return length


def _length(value: Any) -> str:
    span(value)
    return str(value)


def _kept(value: Any) -> str:
    if span(value) < timedelta(days=7):
        raise ValueError
    return str(value)


def _ahead(value: Any) -> str | None:
    return None if value is None else _length(value)


def _time_in_name(value: Any) -> str:
    if not isinstance(value, str) or not time_pattern(value):
        raise _WrongError(
            "must have %Y, %m and %d, and may have %H, %M and %S, each once, such as '%Y-%m-%d'"
        )
    return value


def _encoding(value: Any) -> str:
    name = _text(value)
    # Python also has codecs that are not for text, which encode refuses.
    try:
        "".encode(name)
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        raise _WrongError("is none that Python knows") from None


def _zone(value: Any) -> str:
    name = _text(value)
    try:
        return zoneinfo.ZoneInfo(name).key
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise _WrongError("is unknown: such as Europe/Berlin") from None


def _delimiter(value: Any) -> str:
    if not isinstance(value, str):
        return _text(value)
    if not value:
        raise _WrongError("is empty: write a line end as '\\n', since dbt cuts one off")
    return unescaped(value)


def _mapping(of: Callable[[str, Any], str]) -> Callable[[Any], tuple[tuple[str, str], ...]]:
    """Reads a mapping of texts; `of` reads the value of a name. A frozen dataclass holds pairs."""

    def read(value: Any) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise ValueError
        return tuple((name, of(name, each)) for name, each in value.items())

    return read


def _operation(name: str, value: Any) -> str:
    if value not in _OPERATIONS:
        problem = f"the operation '{value}' of '{name}' is unknown: use one of "
        raise _WrongError(f"{problem}{', '.join(_OPERATIONS)}.{guess(value, _OPERATIONS)}")
    return str(value)


def _condition(name: str, value: Any) -> str:
    if not name.strip() or not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def _units(value: Any) -> str | tuple[tuple[str, str], ...]:
    unit = one_of(*_UNITS)
    if isinstance(value, Mapping):
        found: tuple[tuple[str, str], ...] = _mapping(lambda _, each: unit.convert(each))(value)
        return found
    return str(unit.convert(value))


def unescaped(text: Any) -> str:
    """A delimiter, which may have a line end or another control character as in Python's strings.

    dbt cuts the last line end off a YAML value, so the value cannot have it literally.
    """
    escapes = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(
        r"\\(?:([nrt])|x([0-9A-Fa-f]{2}))",
        lambda found: escapes.get(found[1]) or chr(int(found[2], 16)),
        str(text),
    )


@cache
def time_pattern(text: str) -> re.Pattern[str] | None:
    """The pattern that finds a time such as `%Y-%m-%d` in a path; None when it is no such text."""
    parts = re.split(r"%(.)", text)
    used = parts[1::2]
    if not {"Y", "m", "d"} <= set(used) <= set(_TIME_PARTS) or len(used) > len(set(used)):
        return None
    digits = (f"[0-9]{{{_TIME_PARTS[part]}}}" for part in used)
    between = (re.escape(part) for part in parts[0::2])
    pattern = "".join(a + b for a, b in zip(between, (*digits, ""), strict=True))
    return re.compile(f"(?<![0-9]){pattern}(?![0-9])")


TEXT = Values("text", _text)
DELIMITER = Values("text", _delimiter)
NULL_TEXTS = Values("a text or a list of texts", _null_texts)
UNAVAILABLE = Values(
    "text without a backslash",
    _if(lambda value: value is None or "\\" not in _text(value)),
)
ENCODING = Values("such as 'utf-8' or 'latin-1'", _encoding)

FLAG = Values("true or false, without quotes", _if(lambda value: isinstance(value, bool)))
COUNT = Values("a whole number from 0 on", _if(lambda value: type(value) is int and value >= 0))
SHARE = Values("a number from 0 to 1", _share)

NAME = Values("the name of one column", _name)
COLUMN = Values("the name of one column", _name, are_columns=True)
COLUMNS = Values("a column or a list of columns", _names, are_columns=True)
FLAG_OR_COLUMNS = Values("true, or a column or a list of columns", _flag_or_names, are_columns=True)

CONDITION = Values("an SQL condition", _text)
CHECKS = Values("a mapping such as {price_is_positive: price > 0}", _mapping(_condition))
OPERATIONS = Values(
    "a mapping such as {N: I, R: D, X: skip}; write numbers and no, yes, on, off in quotes",
    _mapping(_operation),
)

TIME = Values(_A_TIME, _time)
TIMES = Values("a time (UTC) or a list of times", _times)
TIME_ZONE = Values("such as 'Europe/Berlin'", _zone)
UNITS = Values(f"{_quoted(_UNITS)}, or a mapping of columns to these", _units)
LAG = Values("such as '15 minutes' or '2 hours'", _length)
LATENESS = Values("such as '7 days' or '36 hours'", _length)
AHEAD = Values("such as '1 day' or '2 hours', or null", _ahead)
KEPT = Values("such as '400 days' or '8 weeks', and at least 7 days", _kept)

FOLDER = Values("a folder below the landing folder", _folder)
TABLE = Values("such as 'schema.table'", _text)
PREFIX = Values("such as 'BI_'", _text)
FILE = Values("the name of a file, such as '_SUCCESS'", _if(lambda value: "/" not in _text(value)))
TIME_IN_NAME = Values("such as '%Y-%m-%d'", _time_in_name)
