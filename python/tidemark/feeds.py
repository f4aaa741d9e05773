"""A feed: what the YAML of a dbt source says about the files of one table.

The YAML is the only declaration; see docs/feeds.md for every setting.
"""

import codecs
import difflib
import re
import zoneinfo
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import Any

from tidemark.errors import ConfigError

FORMATS = ("dms", "debezium", "extract")
HEADERS = ("none", "load", "all")
NEW_COLUMNS = ("add", "refuse")
MISSING_FILES = ("ignore", "fail")
QUOTES = ('"', "none")
BINARY_TEXTS = ("hex", "base64", "utf-8")
UNITS = ("milliseconds", "microseconds", "nanoseconds")
OPERATIONS = ("I", "U", "D", "T", "skip")
# What the sequence of a Debezium feed can be besides columns.
PLACES = (("source",), ("offset",))
UNAVAILABLE = "__debezium_unavailable_value"

# Columns that a history table adds.
RESERVED = ("version_key", "valid_from", "valid_to", "is_current", "version_number")
# Settings of one format; each list says for which they make no sense.
_NOT_FOR: dict[str, dict[str, tuple[str, ...]]] = {
    "extract": {
        "their time orders them": ("loaded_at", "op_in_load"),
        "that is a way of AWS DMS": (
            *("op_in_changes", "file_time_zone", "transactions_path", "source_table"),
            "before_image_prefix",
        ),
        "that is a way of Debezium": ("field_prefix", "timestamp_unit", "decimals", "upserts_only"),
    },
    "full extract": {
        "their time orders them": ("sequence", "epochs", "timestamp_column", "operations"),
        "their rows are whole": ("ignore_null_updates", "changed_columns", "unavailable_value"),
        "each stands for the whole table": ("truncate_when", "lateness"),
    },
    "dms": {
        "only extracts have it": (
            *("max_deleted_share", "time_in_name", "status_column", "extract_is"),
            "complete_marker",
        ),
        "that is a way of Debezium": ("field_prefix", "timestamp_unit", "decimals", "upserts_only"),
    },
    "debezium": {
        "only extracts have it": (
            *("max_deleted_share", "time_in_name", "status_column", "extract_is"),
            "complete_marker",
        ),
        "that is a way of AWS DMS": (
            *("op_in_load", "op_in_changes", "file_time_zone", "transactions_path"),
            *("source_table", "before_image_prefix"),
        ),
        "that is a way of CSV files": ("header", "delimiter", "row_delimiter", "quote"),
        "an event carries its time": ("timestamp_column",),
    },
}
_TIME_PARTS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})?)?")
_TYPE = re.compile(
    r"^(string|boolean|tinyint|smallint|int|integer|bigint|float|double|date|timestamp"
    r"|timestamp_ntz|binary|decimal\(\d+, ?\d+\))$"
)


@dataclass(frozen=True)
class Column:
    """A column of the source table: its name and its Spark type, and whether the YAML has it."""

    name: str
    type: str
    is_declared: bool = True


@dataclass(frozen=True)
class Feed:
    """One table's change feed, as declared."""

    source: str
    table: str
    schema: str
    declared_in: str
    format: str
    path: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    sequence: tuple[str, ...] = ()
    epochs: tuple[str, ...] = ()
    header: str = "none"
    op_in_load: bool = False
    timestamp_column: str | None = None
    loaded_at: str | None = None
    delimiter: str = ","
    null_text: tuple[str, ...] = ("", "NULL")
    include_columns: tuple[str, ...] = ()
    exclude_columns: tuple[str, ...] = ()
    delete_when: str | None = None
    truncate_when: str | None = None
    checks: tuple[tuple[str, str], ...] = ()
    ignore_null_updates: bool | tuple[str, ...] = False
    changed_columns: str | None = None
    unavailable_value: str | None = None
    lateness: str | None = None
    time_in_name: str | None = None
    max_deleted_share: float = 0.5
    new_columns: str = "add"
    missing_files: str = "ignore"
    strict: bool = False
    max_rejected_share: float = 1.0
    encoding: str = "utf-8"
    binary_text: str = "base64"
    operations: tuple[tuple[str, str], ...] = ()
    row_delimiter: str | None = None
    quote: str = '"'
    op_in_changes: bool = True
    file_time_zone: str = "UTC"
    transactions_path: str | None = None
    source_table: str = ""
    before_image_prefix: str | None = None
    field_prefix: str = "__"
    timestamp_unit: str | tuple[tuple[str, str], ...] | None = None
    decimals: str | None = None
    upserts_only: bool = False
    status_column: str | None = None
    extract_is: str = "file"
    complete_marker: str | None = None

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
        """Of these, those that the YAML has: the fields of a CSV file without a header."""
        return [column.name for column in self.columns if column.is_declared]

    @property
    def binary_columns(self) -> set[str]:
        """Those columns that are bytes, which the log has as base64."""
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
        """Whether it is the place in Kafka."""
        return self.is_placed and self.sequence == ("offset",)

    @property
    def is_full_extract(self) -> bool:
        """Whether each of its loads stands for the whole table."""
        return self.format == "extract" and not self.status_column

    @property
    def op_column(self) -> str | None:
        """The column that says what a record of a file does."""
        return "Op" if self.format == "dms" else self.status_column

    def needs_op(self, kind: str) -> bool:
        """Whether records of files of this kind must say what they do."""
        if self.format == "dms":
            return self.op_in_load if kind == "load" else self.op_in_changes
        return self.status_column is not None

    def leading_fields(self, kind: str) -> list[str]:
        """The fields before the source's columns in a CSV file without a header."""
        op = [self.op_column] if self.op_column and self.needs_op(kind) else []
        time = self.timestamp_column
        return [*op, *([time] if time and time not in self.column_names else [])]

    def before_images(self) -> list[str]:
        """The fields behind the source's columns in a CSV file without a header."""
        prefix = self.before_image_prefix
        return [f"{prefix}{name}" for name in self.key] if prefix else []

    def has_header(self, kind: str) -> bool:
        """Whether CSV files of this kind begin with a line of column names."""
        return self.header == "all" or (self.header == "load" and kind == "load")

    def unit_of(self, name: str) -> str | None:
        """What the numbers in a timestamp column count, as declared."""
        unit = self.timestamp_unit
        return dict(unit).get(name) if isinstance(unit, tuple) else unit


@dataclass
class _Check:
    """Collects what is wrong with one declaration, so that all of it is told at once."""

    where: str
    problems: list[str] = field(default_factory=list)

    def one_of(self, name: str, value: Any, allowed: Iterable[str]) -> None:
        allowed = list(allowed)
        if value not in allowed:
            guess = difflib.get_close_matches(str(value), allowed, n=1)
            hint = f" Did you mean '{guess[0]}'?" if guess else ""
            self.problems.append(
                f"{name} '{value}' is unknown: use one of {', '.join(allowed)}.{hint}"
            )

    def finish(self) -> None:
        if self.problems:
            raise ConfigError(f"{self.where}: " + " ".join(self.problems))


def _names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def feed_from_source(node: Mapping[str, Any]) -> Feed | None:
    """The feed that a dbt source table declares in `config.meta.feed`, or None without one.

    `node` is the source as dbt's manifest has it. Settings of the source as a whole are
    defaults for its tables. Raises ConfigError, naming the YAML file and every problem.
    """
    own = (node.get("config") or {}).get("meta", {}).get("feed") or node["meta"].get("feed")
    shared = (node.get("source_meta") or {}).get("feed")
    if not own and not shared:
        return None
    settings: dict[str, Any] = {**(shared or {}), **(own or {})}
    source, table = node["source_name"], node["name"]
    check = _Check(f"{node['original_file_path']}, {source}.{table}")
    columns = tuple(
        Column(name, str(column.get("data_type") or "string").lower())
        for name, column in node["columns"].items()
    )
    known = {column.name for column in columns}
    allowed = [
        name
        for name in Feed.__dataclass_fields__
        if name not in ("source", "table", "schema", "declared_in", "columns")
    ]
    for setting in settings:
        check.one_of("the feed's setting", setting, allowed)
    check.one_of("format", settings.get("format"), FORMATS)
    if "header" in settings:
        check.one_of("header", settings["header"], HEADERS)
    if not columns:
        check.problems.append("no columns are declared: list them with name and data_type.")
    for column in columns:
        if not _TYPE.match(column.type):
            check.problems.append(f"column {column.name} has the unknown data_type {column.type}.")
        if not re.fullmatch(r"[^\W\d_]\w*", column.name):
            check.problems.append(
                f"column '{column.name}': a name starts with a letter and goes on with letters, "
                "digits and _ (names with _ in front are Tidemark's)."
            )
        if column.name.lower() in RESERVED:
            check.problems.append(f"column '{column.name}': Tidemark's own columns have that name.")
    if settings.get("timestamp_column") in known and settings.get("format") == "dms":
        check.problems.append(
            f"timestamp_column '{settings['timestamp_column']}' is what DMS adds to the table's "
            "columns: do not list it among them."
        )
    key, sequence = _names(settings.get("key")), _names(settings.get("sequence"))
    is_debezium = settings.get("format") == "debezium"
    if is_debezium and not sequence:
        sequence = PLACES[0]
    of_columns = () if is_debezium and sequence in PLACES else sequence
    for setting, names in (("key", key), ("sequence", of_columns)):
        for name in names:
            if name not in known:
                check.problems.append(
                    f"the {setting} column '{name}' is not among the columns "
                    f"({', '.join(sorted(known))})."
                )
    if not key:
        check.problems.append("no key: name the column or columns that identify a row.")
    _check_format(check, settings)
    _check_choices(check, settings, known)
    _check_columns_of_tables(check, settings, known)
    _check_partial_rows(check, settings, known)
    epochs = _epochs(check, settings, sequence)
    lateness = settings.get("lateness")
    if lateness and not re.fullmatch(r"\d+ (second|minute|hour|day|week)s?", str(lateness)):
        check.problems.append(f"lateness '{lateness}' must be such as '7 days' or '36 hours'.")
    if settings.get("time_in_name") and not time_pattern(str(settings["time_in_name"])):
        check.problems.append(
            f"time_in_name '{settings['time_in_name']}' must have %Y, %m and %d, and may have %H, "
            "%M and %S, each once, such as '%Y-%m-%d'."
        )
    for setting in ("max_deleted_share", "max_rejected_share"):
        share = settings.get(setting, 0.5)
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            check.problems.append(f"{setting} '{share}' must be a number from 0 to 1.")
    path = str(settings.get("path") or f"{source}/{table}")
    for folder in (path, str(settings.get("transactions_path") or "")):
        if folder.startswith("/") or ".." in folder.split("/"):
            check.problems.append(f"path '{folder}' must stay below the landing folder.")
    check.finish()
    unit = settings.get("timestamp_unit")
    return Feed(
        source=source,
        table=table,
        schema=node["schema"],
        declared_in=node["original_file_path"],
        format=settings["format"],
        path=path,
        key=key,
        columns=columns,
        sequence=sequence,
        epochs=epochs,
        header=settings.get("header", "all" if settings["format"] == "extract" else "none"),
        op_in_load=bool(settings.get("op_in_load", False)),
        timestamp_column=settings.get("timestamp_column"),
        loaded_at=str(settings["loaded_at"]) if settings.get("loaded_at") else None,
        delimiter=unescaped(settings.get("delimiter", ",")),
        null_text=_names(settings.get("null_text", ("", "NULL"))),
        include_columns=_names(settings.get("include_columns")),
        exclude_columns=_names(settings.get("exclude_columns")),
        delete_when=settings.get("delete_when"),
        truncate_when=settings.get("truncate_when"),
        checks=_pairs(settings.get("checks")),
        ignore_null_updates=_all_or_names(settings.get("ignore_null_updates")),
        changed_columns=settings.get("changed_columns"),
        unavailable_value=settings.get("unavailable_value", UNAVAILABLE if is_debezium else None),
        lateness=settings.get("lateness"),
        time_in_name=settings.get("time_in_name"),
        max_deleted_share=float(settings.get("max_deleted_share", 0.5)),
        new_columns=settings.get("new_columns", "add"),
        missing_files=settings.get("missing_files", "ignore"),
        strict=bool(settings.get("strict", False)),
        max_rejected_share=float(settings.get("max_rejected_share", 1)),
        encoding=codecs.lookup(settings.get("encoding", "utf-8")).name,
        binary_text=settings.get("binary_text", "hex" if settings["format"] == "dms" else "base64"),
        operations=_pairs(settings.get("operations")),
        row_delimiter=unescaped(settings.get("row_delimiter") or "") or None,
        quote=settings.get("quote", '"'),
        op_in_changes=bool(settings.get("op_in_changes", True)),
        file_time_zone=settings.get("file_time_zone", "UTC"),
        transactions_path=settings.get("transactions_path"),
        source_table=settings.get("source_table") or f"{source}.{table}",
        before_image_prefix=settings.get("before_image_prefix"),
        field_prefix=settings.get("field_prefix", "__"),
        timestamp_unit=unit if isinstance(unit, str | None) else _pairs(unit),
        decimals=settings.get("decimals"),
        upserts_only=bool(settings.get("upserts_only", False)),
        status_column=settings.get("status_column"),
        extract_is=settings.get("extract_is", "file"),
        complete_marker=settings.get("complete_marker"),
    )


def unescaped(text: Any) -> str:
    """A delimiter, in which a line end or another control character may be written as in Python.

    dbt takes the last line end off a YAML value, so that it cannot stand there itself.
    """
    escapes = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(
        r"\\(?:([nrt])|x([0-9A-Fa-f]{2}))",
        lambda found: escapes.get(found[1]) or chr(int(found[2], 16)),
        str(text),
    )


def _pairs(value: Any) -> tuple[tuple[str, str], ...]:
    """A mapping, as what a frozen dataclass can hold."""
    return tuple((str(name), str(each)) for name, each in (value or {}).items())


def _check_format(check: _Check, settings: Mapping[str, Any]) -> None:
    """Settings that make no sense for the format."""
    kind = str(settings.get("format"))
    kinds = [
        kind,
        *(["full extract"] if _is_full_extract(settings) else []),
    ]
    for each in kinds:
        for why, not_for in _NOT_FOR.get(each, {}).items():
            for setting in not_for:
                if settings.get(setting):
                    check.problems.append(f"{setting} is not for format {kind}: {why}.")


def _check_choices(check: _Check, settings: Mapping[str, Any], known: set[str]) -> None:
    """Settings with few values, and what names something that must exist."""
    choices = {
        "new_columns": NEW_COLUMNS,
        "missing_files": MISSING_FILES,
        "quote": QUOTES,
        "binary_text": BINARY_TEXTS,
        "decimals": ("base64", "text"),
        "extract_is": ("file", "folder"),
    }
    for setting, values in choices.items():
        if setting in settings:
            check.one_of(setting, settings[setting], values)
    unit = settings.get("timestamp_unit")
    for each in unit.values() if isinstance(unit, Mapping) else [unit] if unit else []:
        check.one_of("timestamp_unit", each, UNITS)
    for name in unit if isinstance(unit, Mapping) else ():
        if name not in known:
            check.problems.append(f"timestamp_unit: '{name}' is not among the columns.")
    operations = settings.get("operations") or {}
    if isinstance(operations, Mapping):
        for each in operations.values():
            check.one_of("operations: the operation", each, OPERATIONS)
    else:
        check.problems.append("operations must be a mapping such as {N: I, X: skip}.")
    checks = settings.get("checks") or {}
    if not isinstance(checks, Mapping) or not all(
        str(sql or "").strip() for sql in checks.values()
    ):
        check.problems.append("checks must be a mapping such as {price_is_positive: price > 0}.")
    if settings.get("status_column") in known:
        check.problems.append(
            f"status_column '{settings['status_column']}' says what a row does: do not list it "
            "among the columns."
        )
    if settings.get("extract_is") == "folder" and not settings.get("time_in_name"):
        check.problems.append(
            "extract_is folder needs time_in_name: a folder has no time of its own."
        )
    try:
        codecs.lookup(str(settings.get("encoding", "utf-8")))
    except LookupError:
        check.problems.append(f"encoding '{settings['encoding']}' is none that Python knows.")
    try:
        zoneinfo.ZoneInfo(str(settings.get("file_time_zone", "UTC")))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        check.problems.append(
            f"file_time_zone '{settings['file_time_zone']}' is unknown: such as Europe/Berlin."
        )
    for setting in ("delimiter", "row_delimiter"):
        if setting in settings and not settings[setting]:
            check.problems.append(
                f"{setting} is empty: write a line end as '\\n', since dbt cuts one off."
            )


def _all_or_names(value: Any) -> bool | tuple[str, ...]:
    return value if isinstance(value, bool) else _names(value)


def _is_full_extract(settings: Mapping[str, Any]) -> bool:
    return settings.get("format") == "extract" and not settings.get("status_column")


def _epochs(
    check: _Check, settings: Mapping[str, Any], sequence: tuple[str, ...]
) -> tuple[str, ...]:
    """Since when positions count anew, as texts in UTC."""
    told = settings.get("epochs") or ()
    texts = [str(each) for each in (told if isinstance(told, list | tuple) else (told,))]
    times = []
    for text in texts:
        try:
            if not _TIME.fullmatch(text):
                raise ValueError(text)
            at = datetime.fromisoformat(text)
            times.append(at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC))
        except ValueError:
            check.problems.append(
                f"epochs '{text}' must be a time (UTC), such as 2024-03-01 12:00:00."
            )
    for before, after in pairwise(times):
        if before >= after:
            check.problems.append(f"epochs must ascend: {after} stands behind {before}.")
    if texts and not sequence and not _is_full_extract(settings):
        check.problems.append("epochs needs a sequence: without one the files order changes.")
    return tuple(at.replace(tzinfo=None).isoformat(" ") for at in times)


def _check_columns_of_tables(check: _Check, settings: Mapping[str, Any], known: set[str]) -> None:
    """`include_columns` and `exclude_columns`: which columns current and history have."""
    included = _names(settings.get("include_columns"))
    excluded = _names(settings.get("exclude_columns"))
    if included and excluded:
        check.problems.append("give include_columns or exclude_columns, not both.")
    for name in (*included, *excluded):
        if name not in known:
            setting = "include_columns" if included else "exclude_columns"
            check.problems.append(f"{setting}: '{name}' is not among the columns.")
    for name in _names(settings.get("key")):
        if name in excluded:
            check.problems.append(f"exclude_columns: '{name}' is the key, which a table needs.")


def _check_partial_rows(check: _Check, settings: Mapping[str, Any], known: set[str]) -> None:
    """The settings by which an update leaves columns out."""
    ignored = _all_or_names(settings.get("ignore_null_updates"))
    changed = settings.get("changed_columns")
    for name in ignored if isinstance(ignored, tuple) else ():
        if name not in known:
            check.problems.append(f"ignore_null_updates: '{name}' is not among the columns.")
    if changed and changed not in known:
        check.problems.append(f"changed_columns: '{changed}' is not among the columns.")
    unavailable = settings.get("unavailable_value")
    if unavailable is not None and (not isinstance(unavailable, str) or "\\" in unavailable):
        check.problems.append("unavailable_value must be a text without a backslash.")


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


def feeds_of(sources: Iterable[Mapping[str, Any]]) -> list[Feed]:
    """Every feed that the project's sources declare, by name."""
    found = [feed for node in sources if (feed := feed_from_source(node))]
    return sorted(found, key=lambda feed: feed.name)
