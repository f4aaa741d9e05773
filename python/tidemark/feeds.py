"""A feed: the declaration of one table's files in the YAML of a dbt source.

The YAML is the only declaration; docs/feeds.md describes every setting. The class Feed is the
table of settings: each has its values, its default, and the formats that it is for.
"""

import codecs
import difflib
import re
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any

from tidemark.errors import ConfigError, DeclarationError

FORMATS = ("dms", "debezium", "extract")
HEADERS = ("none", "load", "all")
UNITS = ("milliseconds", "microseconds", "nanoseconds")
OPERATIONS = ("I", "U", "D", "T", "skip")
# What the sequence of a Debezium feed can be besides columns.
PLACES = (("source",), ("offset",))
UNAVAILABLE = "__debezium_unavailable_value"
# What `tidemark erase` does with the rows of a subject.
ERASURES = ("delete", "mask")

# Columns that a history table adds.
RESERVED = ("version_key", "valid_from", "valid_to", "is_current", "version_number")

_TIME_PARTS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?")
_LATENESS = re.compile(r"(\d{1,9}) (second|minute|hour|day|week)s?")
_LONGEST = timedelta(days=365 * 1000)
_SUBJECT = re.compile(r"(\w+(\.\w+\.\w+)?)?")
_TYPE = re.compile(
    r"string|boolean|tinyint|smallint|int|integer|bigint|float|double|date|timestamp"
    r"|timestamp_ntz|binary|decimal\((\d+), ?(\d+)\)"
)


# --- the values of a setting ----------------------------------------------------------------------


class _WrongError(ValueError):
    """A value that a setting does not take; the text continues after the setting's name."""


@dataclass(frozen=True)
class Values:
    """The values of a setting: in words, for messages, and as code.

    `read` gives the value as Feed has it, or raises ValueError. With `are_columns` the values are
    names of the table's columns.
    """

    wanted: str
    read: Callable[[Any], Any]
    are_columns: bool = False


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _WrongError("must be text: write it in quotes")
    if not value.strip():
        raise _WrongError("is empty: give it a value, or leave it out")
    return value


def _one_of(*allowed: str) -> Values:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise _WrongError(
                f"is unknown: use one of {', '.join(allowed)}.{_guess(value, allowed)}"
            )
        return value

    return Values(", ".join(allowed), read)


def _guess(value: Any, allowed: Iterable[str]) -> str:
    guess = difflib.get_close_matches(str(value), list(allowed), n=1)
    return f" Did you mean '{guess[0]}'?" if guess else ""


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
            raise _WrongError(f"must be a time {_A_TIME}", each) from None
    return tuple(found)


def span(value: Any) -> timedelta:
    """A length of time such as `7 days` or `36 hours`. Raises ValueError for anything else."""
    found = _LATENESS.fullmatch(value) if isinstance(value, str) else None
    length = timedelta(**{f"{found[2]}s": int(found[1])}) if found else _LONGEST
    if not found or length > _LONGEST:
        raise ValueError
    return length


def _lateness(value: Any) -> str:
    span(value)
    return str(value)


def _kept(value: Any) -> str:
    if span(value) < timedelta(days=7):
        raise ValueError
    return str(value)


def _ahead(value: Any) -> str | None:
    return None if value is None else _lateness(value)


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
    if value not in OPERATIONS:
        problem = f"the operation '{value}' of '{name}' is unknown: use one of "
        raise _WrongError(f"{problem}{', '.join(OPERATIONS)}.{_guess(value, OPERATIONS)}")
    return str(value)


def _condition(name: str, value: Any) -> str:
    if not name.strip() or not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


_unit = _one_of(*UNITS)


def _units(value: Any) -> str | tuple[tuple[str, str], ...]:
    if isinstance(value, Mapping):
        found: tuple[tuple[str, str], ...] = _mapping(lambda _, unit: _unit.read(unit))(value)
        return found
    return str(_unit.read(value))


_A_TIME = "(UTC), such as 2024-03-01 12:00:00"

TEXT = Values("text", _text)
CONDITION = Values("an SQL condition", _text)
COUNT = Values("a whole number from 0 on", _if(lambda value: type(value) is int and value >= 0))
FLAG = Values("true or false, without quotes", _if(lambda value: isinstance(value, bool)))
SHARE = Values("a number from 0 to 1", _share)
FOLDER = Values("a folder below the landing folder", _folder)
TIME = Values(f"a time {_A_TIME}", _time)
NAME = Values("the name of one column", _name)
COLUMN = Values("the name of one column", _name, are_columns=True)
COLUMNS = Values("a column or a list of columns", _names, are_columns=True)
DELIMITER = Values("text", _delimiter)

# Formats, and full extracts, that have no use for a setting, and why.
EVERY: Mapping[str, str] = {}
_ORDERED = "their time orders them"
_NOT_FULL = {"full extract": _ORDERED}
_WHOLE_TABLE = {"full extract": "each is the whole table"}
_WHOLE_ROWS = {"full extract": "their rows are whole"}
_CSV = {"debezium": "only CSV files have it"}
_DMS = dict.fromkeys(("debezium", "extract"), "only AWS DMS has it")
_DEBEZIUM = dict.fromkeys(("dms", "extract"), "only Debezium has it")
_EXTRACT = dict.fromkeys(("dms", "debezium"), "only extracts have it")


@dataclass(frozen=True)
class Setting:
    """A setting of a feed: its name, values, default, and the formats that it is for.

    `defaults` are those of single formats; `not_for` has the formats, or full extracts, that have
    no use for the setting, and why. With `can_be_off`, null switches the default of a format off.
    """

    name: str
    values: Values
    default: Any
    not_for: Mapping[str, str]
    defaults: Mapping[str, Any]
    can_be_off: bool

    def read(self, value: Any) -> Any:
        """The value as Feed has it. Raises ConfigError with a sentence."""
        try:
            return self.values.read(value)
        except (ValueError, TypeError, OverflowError) as error:
            why, told = f"must be {self.values.wanted}", value
            if isinstance(error, _WrongError):
                why, told = error.args if len(error.args) > 1 else (error.args[0], value)
            end = "" if why[-1] in ".?" else "."
            raise ConfigError(f"{self.name} '{told}' {why}{end}") from None


def _setting(
    values: Values,
    default: Any = None,
    not_for: Mapping[str, str] = EVERY,
    *,
    can_be_off: bool = False,
    **defaults: Any,
) -> Any:
    metadata = {"values": values, "not_for": not_for, "defaults": defaults}
    return field(default=default, metadata={**metadata, "can_be_off": can_be_off})


@dataclass(frozen=True)
class Column:
    """A column of the source table: its name, its Spark type, and whether the YAML has it.

    The others are the tags of `tidemark erase`: the subject that it identifies, whether the rows of
    an erased subject stay with their personal columns masked, and whether it is one of these.
    """

    name: str
    type: str
    is_declared: bool = True
    subject: str = ""
    masks: bool = False
    is_personal: bool = False


@dataclass(frozen=True)
class Reference:
    """The columns that say to whom or what a row belongs.

    `subject` is a name such as `customer`, or a feed such as `crm.orders`: then the row belongs to
    the row of that feed with this key.
    """

    subject: str
    columns: tuple[Column, ...]
    masks: bool = False
    # The row's own key, not a column that names someone.
    is_own: bool = False


@dataclass(frozen=True)
class Feed:
    """One table's change feed, as declared."""

    source: str
    table: str
    schema: str
    declared_in: str
    format: str = _setting(_one_of(*FORMATS))
    path: str = _setting(FOLDER)
    key: tuple[str, ...] = _setting(COLUMNS, ())
    columns: tuple[Column, ...] = ()
    sequence: tuple[str, ...] = _setting(
        COLUMNS,
        (),
        _NOT_FULL,
        debezium=PLACES[0],
    )
    epochs: tuple[str, ...] = _setting(
        Values("a time or a list of times", _times),
        (),
        _NOT_FULL,
    )
    header: str = _setting(
        _one_of(*HEADERS),
        "none",
        _CSV,
        extract="all",
    )
    op_in_load: bool = _setting(FLAG, False, {**_DMS, "extract": _ORDERED})
    timestamp_column: str | None = _setting(
        NAME, None, {**_NOT_FULL, "debezium": "an event carries its time"}
    )
    loaded_at: str | None = _setting(TIME, None, {"extract": _ORDERED})
    delimiter: str = _setting(DELIMITER, ",", _CSV)
    null_text: tuple[str, ...] = _setting(
        Values("a text or a list of texts", _null_texts),
        ("", "NULL"),
        _CSV,
        can_be_off=True,
    )
    include_columns: tuple[str, ...] = _setting(COLUMNS, ())
    exclude_columns: tuple[str, ...] = _setting(COLUMNS, ())
    delete_when: str | None = _setting(CONDITION)
    truncate_when: str | None = _setting(CONDITION, None, _WHOLE_TABLE)
    checks: tuple[tuple[str, str], ...] = _setting(
        Values("a mapping such as {price_is_positive: price > 0}", _mapping(_condition)),
        (),
    )
    ignore_null_updates: bool | tuple[str, ...] = _setting(
        Values("true, or a column or a list of columns", _flag_or_names, are_columns=True),
        False,
        _WHOLE_ROWS,
    )
    changed_columns: str | None = _setting(COLUMN, None, _WHOLE_ROWS)
    unavailable_value: str | None = _setting(
        Values(
            "text without a backslash",
            _if(lambda value: value is None or "\\" not in _text(value)),
        ),
        None,
        _WHOLE_ROWS,
        can_be_off=True,
        debezium=UNAVAILABLE,
    )
    ahead: str | None = _setting(
        Values("such as '1 day' or '2 hours', or null", _ahead),
        "1 day",
        can_be_off=True,
    )
    lateness: str | None = _setting(
        Values("such as '7 days' or '36 hours'", _lateness),
        None,
        _WHOLE_TABLE,
    )
    keep_changes: str | None = _setting(Values("such as '400 days', and at least 7 days", _kept))
    time_in_name: str | None = _setting(
        Values("such as '%Y-%m-%d'", _time_in_name),
        None,
        _EXTRACT,
    )
    max_deleted_share: float = _setting(SHARE, 0.5, _EXTRACT)
    new_columns: str = _setting(_one_of("add", "refuse"), "add")
    missing_files: str = _setting(_one_of("ignore", "fail"), "ignore")
    strict: bool = _setting(FLAG, False)
    max_rejected_share: float = _setting(SHARE, 1.0)
    max_dead_letters: int | None = _setting(COUNT)
    max_lag: str | None = _setting(Values("such as '15 minutes' or '2 hours'", _lateness))
    encoding: str = _setting(Values("text", _encoding), "utf-8")
    binary_text: str = _setting(
        _one_of("hex", "base64", "utf-8"),
        "base64",
        dms="hex",
    )
    operations: tuple[tuple[str, str], ...] = _setting(
        Values(
            "a mapping such as {N: I, X: skip}; write numbers and no, yes, on, off in quotes",
            _mapping(_operation),
        ),
        (),
        _NOT_FULL,
    )
    row_delimiter: str | None = _setting(DELIMITER, None, _CSV)
    quote: str = _setting(_one_of('"', "none"), '"', _CSV)
    op_in_changes: bool = _setting(FLAG, True, _DMS)
    file_time_zone: str = _setting(Values("text", _zone), "UTC", _DMS)
    transactions_path: str | None = _setting(FOLDER, None, _DMS)
    source_table: str = _setting(TEXT, "", _DMS)
    before_image_prefix: str | None = _setting(TEXT, None, _DMS)
    field_prefix: str = _setting(
        Values("text", lambda value: "" if value == "" else _text(value)),
        "__",
        _DEBEZIUM,
    )
    timestamp_unit: str | tuple[tuple[str, str], ...] | None = _setting(
        Values(f"{_unit.wanted}, or a mapping of columns to these", _units),
        None,
        _DEBEZIUM,
    )
    decimals: str | None = _setting(_one_of("base64", "text"), None, _DEBEZIUM)
    upserts_only: bool = _setting(FLAG, False, _DEBEZIUM)
    status_column: str | None = _setting(NAME, None, _EXTRACT)
    extract_is: str = _setting(_one_of("file", "folder"), "file", _EXTRACT)
    complete_marker: str | None = _setting(
        Values("the name of a file", _if(lambda value: "/" not in _text(value))),
        None,
        _EXTRACT,
    )

    @property
    def log(self) -> str:
        """The change log's name, as SQL writes it."""
        return f"`{self.schema}`.`{self.table}`"

    @property
    def name(self) -> str:
        """`source.table`, as people and dbt's selectors write it."""
        return f"{self.source}.{self.table}"

    @property
    def column_names(self) -> list[str]:
        """The names of the source table's columns, in order."""
        return [column.name for column in self.columns]

    @property
    def declared_names(self) -> list[str]:
        """The names of the columns in the YAML: the fields of a CSV file without a header."""
        return [column.name for column in self.columns if column.is_declared]

    @property
    def own_key(self) -> Reference:
        """The key, as other feeds refer to it: in the order of the columns' names."""
        columns = [column for column in self.columns if column.name in self.key]
        in_order = tuple(sorted(columns, key=lambda column: column.name))
        return Reference(self.name, in_order, is_own=True)

    @property
    def own_key_of_masked(self) -> Reference:
        """The key, as a subject of its own: of the rows that an erasure masks."""
        name = f"{self.name} (masked)"
        return Reference(name, self.own_key.columns, masks=True, is_own=True)

    @property
    def all_references(self) -> list[Reference]:
        """The references, and the key as a subject, if rows can belong to someone."""
        found = self.references
        return [*found, self.own_key, self.own_key_of_masked] if found else []

    @property
    def has_partial_rows(self) -> bool:
        """Whether a row of the log may leave out columns that an earlier row has."""
        return bool(self.ignore_null_updates or self.changed_columns or self.unavailable_value)

    @property
    def references(self) -> list[Reference]:
        """To whom or what the rows belong, by the tag `subject` of columns."""
        found: list[Reference] = []
        of_feeds: dict[str, list[tuple[str, Column]]] = {}
        for column in self.columns:
            feed, _, name = column.subject.rpartition(".")
            if feed:
                of_feeds.setdefault(feed, []).append((name, column))
            elif column.subject:
                found.append(Reference(column.subject, (column,), column.masks))
        for feed, named in of_feeds.items():
            if len({name for name, _ in named}) < len(named):
                # Several columns refer to the same one, such as the two ends of a transfer.
                found += [Reference(feed, (column,), column.masks) for _, column in named]
            else:
                columns = tuple(column for _, column in sorted(named, key=lambda each: each[0]))
                masks = any(column.masks for column in columns)
                found.append(Reference(feed, columns, masks))
        return found

    @property
    def binary_columns(self) -> set[str]:
        """The names of the binary columns, which the log has as base64."""
        return {column.name for column in self.columns if column.type == "binary"}

    @property
    def sequence_columns(self) -> tuple[str, ...]:
        """The columns that order changes; none when their place in the source's log does."""
        return () if self.is_placed else self.sequence

    @property
    def is_placed(self) -> bool:
        """Whether changes are ordered by their place in the source's log, or in Kafka."""
        return self.format == "debezium" and self.sequence in PLACES

    @property
    def is_by_offset(self) -> bool:
        """Whether changes are ordered by their place in Kafka."""
        return self.is_placed and self.sequence == ("offset",)

    @property
    def epoch_at(self) -> str:
        """The column of the log that decides which epoch a change belongs to."""
        return "_file_at" if self.is_by_offset else "_changed_at"

    @property
    def has_generations(self) -> bool:
        """Whether a reload starts the order of changes anew."""
        return self.format == "dms" and bool(self.sequence)

    @property
    def is_full_extract(self) -> bool:
        """Whether each extract is the whole table."""
        return self.format == "extract" and not self.status_column

    @property
    def has_copies(self) -> bool:
        """Whether a change can be a copy of another: without a sequence, its place orders it."""
        return bool(self.sequence) and not self.is_full_extract

    @property
    def op_column(self) -> str | None:
        """The column with the operation of a record."""
        return "Op" if self.format == "dms" else self.status_column

    def needs_op(self, kind: str) -> bool:
        """Whether records of files of this kind must have an operation."""
        if self.format == "dms":
            return self.op_in_load if kind == "load" else self.op_in_changes
        return self.status_column is not None

    def leading_fields(self, kind: str) -> list[str]:
        """The fields before the source's columns in a CSV file without a header."""
        op = [self.op_column] if self.op_column and self.needs_op(kind) else []
        time = self.timestamp_column
        return [*op, *([time] if time and time not in self.column_names else [])]

    def before_images(self) -> list[str]:
        """The fields after the source's columns in a CSV file without a header."""
        prefix = self.before_image_prefix
        return [f"{prefix}{name}" for name in self.key] if prefix else []

    def has_header(self, kind: str) -> bool:
        """Whether CSV files of this kind begin with a line of column names."""
        return self.header == "all" or (self.header == "load" and kind == "load")

    def unit_of(self, name: str) -> str | None:
        """The declared unit of the numbers in a timestamp column."""
        unit = self.timestamp_unit
        return dict(unit).get(name) if isinstance(unit, tuple) else unit


# The settings that the YAML may have, in the order of Feed.
SETTINGS = {
    each.name: Setting(name=each.name, default=each.default, **each.metadata)
    for each in fields(Feed)
    if each.metadata
}


# --- the YAML's declaration -----------------------------------------------------------------------


def feeds_of(sources: Iterable[Mapping[str, Any]]) -> list[Feed]:
    """Every feed that the project's sources declare, by name.

    Raises ConfigError, as `feed_from_source`, also for a `subject` that no feed has.
    """
    found = [feed for node in sources if (feed := feed_from_source(node))]
    _check_subjects({feed.name: feed for feed in found})
    return sorted(found, key=lambda feed: feed.name)


def _check_subjects(feeds: Mapping[str, Feed]) -> None:
    """Report columns that refer to the rows of another feed by anything but its key."""
    for feed in feeds.values():
        for column in feed.columns:
            parent, _, name = column.subject.rpartition(".")
            key = feeds[parent].key if parent in feeds else ()
            if parent and name not in key:
                found = f"its key is {', '.join(key)}" if key else "there is no such feed"
                raise ConfigError(
                    f"{feed.declared_in}, {feed.name}: the subject '{column.subject}' of the "
                    f"column {column.name} must be a name such as customer, or a column of the key "
                    f"of a feed, such as crm.orders.order_id; {found}."
                )
        for reference in feed.references:
            parts = len(feeds[reference.subject].key) if reference.subject in feeds else 1
            if parts != len(reference.columns):
                names = ", ".join(column.name for column in reference.columns)
                raise ConfigError(
                    f"{feed.declared_in}, {feed.name}: {names} is not the whole key of "
                    f"{reference.subject}. Tag one column for each of "
                    f"{', '.join(feeds[reference.subject].key)}."
                )


def is_table(node: Mapping[str, Any]) -> bool:
    """Whether a dbt source is a table that someone else appends to: there is nothing to land.

    The macro `changes_from_table` reads it and checks its settings.
    """
    told = [each for each in _declared(node) if isinstance(each, Mapping) and "format" in each]
    return bool(told) and told[-1]["format"] == "table"


def _declared(node: Mapping[str, Any]) -> list[Any]:
    """What the source as a whole says of its feeds, and what the table says; the last one wins."""
    own = (node.get("config") or {}).get("meta", {}).get("feed") or node["meta"].get("feed")
    shared = (node.get("source_meta") or {}).get("feed")
    return [each for each in (shared, own) if each]


def feed_from_source(node: Mapping[str, Any]) -> Feed | None:
    """The feed that a dbt source table declares in `config.meta.feed`, or None without one.

    `node` is the source as dbt's manifest has it. Settings of the source as a whole are
    defaults for its tables; null is the default again. Raises ConfigError, naming the YAML file
    and every problem.
    """
    declared = _declared(node)
    if not declared or is_table(node):
        return None
    source, table = node["source_name"], node["name"]
    problems: list[str] = []
    settings: dict[Any, Any] = {}
    for told in declared:
        if isinstance(told, Mapping):
            settings |= told
        else:
            problems.append(
                f"meta.feed '{told}' must be a mapping such as {{format: dms, key: id}}."
            )
    columns = _columns(node["columns"], problems)
    given = _given(settings, problems)
    format_ = str(given.get("format", ""))
    if settings.get("format") is None:
        problems.append(f"no format: it is one of {', '.join(FORMATS)}.")
    defaults = {
        name: setting.defaults[format_]
        for name, setting in SETTINGS.items()
        if format_ in setting.defaults
    }
    feed = Feed(
        source=source,
        table=table,
        schema=node["schema"],
        declared_in=node["original_file_path"],
        columns=columns,
        **{"format": "", "path": f"{source}/{table}", "source_table": f"{source}.{table}"}
        | defaults
        | given,
    )
    _check_format(feed, given, problems)
    _check_columns(feed, given, node["columns"], problems)
    if "key" not in settings or settings["key"] in (None, []):
        problems.append("no key: name the column or columns that identify a row.")
    for before, after in pairwise(feed.epochs):
        if datetime.fromisoformat(before) >= datetime.fromisoformat(after):
            problems.append(f"epochs must ascend: {after} comes after {before}.")
    if feed.epochs and not feed.sequence and not feed.is_full_extract:
        problems.append("epochs needs a sequence: without one the files order changes.")
    if feed.extract_is == "folder" and not feed.time_in_name:
        problems.append("extract_is folder needs time_in_name: a folder has no time of its own.")
    if problems:
        raise DeclarationError(f"{node['original_file_path']}, {source}.{table}", problems)
    return feed


def _given(settings: Mapping[Any, Any], problems: list[str]) -> dict[str, Any]:
    """The settings that the YAML has, as Feed has them; without the wrong ones."""
    given = {}
    for name, value in settings.items():
        setting = SETTINGS.get(name) if isinstance(name, str) else None
        try:
            if setting is None:
                _one_of(*SETTINGS).read(name)
            elif value is not None or setting.can_be_off:
                given[name] = setting.read(value)
        except ConfigError as error:
            problems.append(str(error))
        except _WrongError as error:
            problems.append(f"the feed's setting '{name}' {error}")
    return given


def _columns(told: Mapping[str, Any], problems: list[str]) -> tuple[Column, ...]:
    columns = tuple(_column(str(name), column, problems) for name, column in told.items())
    if not columns:
        problems.append("no columns are declared: list them with name and data_type.")
    seen: dict[str, str] = {}
    for column in columns:
        data_type = _TYPE.fullmatch(column.type)
        if not data_type:
            problems.append(f"column {column.name} has the unknown data_type {column.type}.")
        elif data_type[1] and not (
            int(data_type[2]) <= int(data_type[1]) and 1 <= int(data_type[1]) <= 38
        ):
            problems.append(
                f"column {column.name} has the data_type {column.type}: a decimal has 1 to 38 "
                "digits, and at most as many after the point."
            )
        if not re.fullmatch(r"[^\W\d_]\w*", column.name):
            problems.append(
                f"column '{column.name}': a name starts with a letter and goes on with letters, "
                "digits and _ (names with _ in front are Tidemark's)."
            )
        if column.name.lower() in RESERVED:
            problems.append(f"column '{column.name}': Tidemark's own columns have that name.")
        other = seen.setdefault(column.name.lower(), column.name)
        if other != column.name:
            problems.append(
                f"the columns '{other}' and '{column.name}' differ only in letter case, "
                "which Spark does not tell apart: rename one."
            )
    return columns


def tags_of(part: Mapping[str, Any]) -> dict[str, Any]:
    """The `meta` of a node or a column in dbt's manifest. The one in `config` takes precedence."""
    return {**(part.get("meta") or {}), **((part.get("config") or {}).get("meta") or {})}


def _column(name: str, told: Mapping[str, Any], problems: list[str]) -> Column:
    tags = tags_of(told)
    subject, policy = tags.get("subject", ""), tags.get("on_erase", "delete")
    if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
        problems.append(
            f"column {name}: the subject '{subject}' must be a name such as customer, or a column "
            "of another feed's key, such as crm.orders.order_id."
        )
        subject = ""
    if policy not in ERASURES or ("on_erase" in tags and not subject):
        problems.append(
            f"column {name}: on_erase '{policy}' must be one of {', '.join(ERASURES)}, on a column "
            "with a subject."
        )
    return Column(
        name,
        str(told.get("data_type") or "string").lower(),
        subject=subject,
        masks=policy == "mask",
        is_personal="personal" in tags,
    )


def _check_format(feed: Feed, given: Mapping[str, Any], problems: list[str]) -> None:
    """Report settings that make no sense for the format."""
    for kind in (feed.format, *(["full extract"] if feed.is_full_extract else [])):
        for name, value in given.items():
            setting = SETTINGS[name]
            if kind in setting.not_for and value != setting.default:
                why = setting.not_for[kind]
                problems.append(f"{name} is not for format {feed.format}: {why}.")


def _check_columns(
    feed: Feed, given: Mapping[str, Any], told: Mapping[str, Any], problems: list[str]
) -> None:
    """Report settings with names that are no columns of the table, or must not be."""
    known = feed.column_names
    for name, value in given.items():
        if not SETTINGS[name].values.are_columns or isinstance(value, bool):
            continue
        if name == "sequence" and feed.is_placed:
            continue
        for column in (value,) if isinstance(value, str) else value:
            if column not in known:
                problems.append(
                    f"{name}: '{column}' is not among the columns ({', '.join(sorted(known))})."
                    f"{_guess(column, known)}"
                )
            elif name == "sequence" and not told[column].get("data_type"):
                problems.append(
                    f"the sequence column '{column}' has no data_type: as text, 10 would "
                    "come before 9. Give it one, be it string."
                )
    unit = feed.timestamp_unit
    for column, _ in unit if isinstance(unit, tuple) else ():
        if column not in known:
            problems.append(f"timestamp_unit: '{column}' is not among the columns.")
    if feed.timestamp_column in known and feed.format == "dms":
        problems.append(
            f"timestamp_column '{feed.timestamp_column}' is what DMS adds to the table's "
            "columns: do not list it among them."
        )
    if feed.status_column in known:
        problems.append(
            f"status_column '{feed.status_column}' says what a row does: do not list it "
            "among the columns."
        )
    if feed.include_columns and feed.exclude_columns:
        problems.append("give include_columns or exclude_columns, not both.")
    for column in feed.key:
        if column in feed.exclude_columns:
            problems.append(f"exclude_columns: '{column}' is the key, which a table needs.")


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
