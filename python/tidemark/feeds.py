"""A feed: what the YAML of a dbt source says about the files of one table.

The YAML is the only declaration; see docs/feeds.md for every setting.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemark.errors import ConfigError

FORMATS = ("dms", "extract")
HEADERS = ("none", "load", "all")

# Columns that landing or a history table adds.
_RESERVED = {"op", "version_key", "valid_from", "valid_to", "is_current", "version_number"}
# Settings of one format; each list says for which they make no sense.
_NOT_FOR: dict[str, dict[str, tuple[str, ...]]] = {
    "extract": {
        "their time orders them": ("sequence", "loaded_at", "timestamp_column", "op_in_load"),
        "their rows are whole": ("ignore_null_updates", "changed_columns", "unavailable_value"),
        "each stands for the whole table": ("truncate_when", "lateness"),
    },
    "dms": {"only full extracts have it": ("max_deleted_share", "time_in_name")},
}
_TIME_PARTS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}

_TYPE = re.compile(
    r"^(string|boolean|tinyint|smallint|int|integer|bigint|float|double|date|timestamp"
    r"|timestamp_ntz|binary|decimal\(\d+, ?\d+\))$"
)


@dataclass(frozen=True)
class Column:
    """A column of the source table: its name and its Spark type."""

    name: str
    type: str


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
    ignore_null_updates: bool | tuple[str, ...] = False
    changed_columns: str | None = None
    unavailable_value: str | None = None
    lateness: str | None = None
    time_in_name: str | None = None
    max_deleted_share: float = 0.5

    @property
    def name(self) -> str:
        """`source.table`, as people and dbt's selectors write it."""
        return f"{self.source}.{self.table}"

    @property
    def log(self) -> str:
        """The change log's name in the catalog."""
        return f"{self.schema}.{self.table}"

    @property
    def column_names(self) -> list[str]:
        """The names of the source table's columns, in order."""
        return [column.name for column in self.columns]


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
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", column.name):
            check.problems.append(
                f"column '{column.name}': a name starts with a letter and goes on with letters, "
                "digits and _ (names with _ in front are Tidemark's)."
            )
        if column.name.lower() in _RESERVED:
            check.problems.append(f"column '{column.name}': Tidemark's own columns have that name.")
    if settings.get("timestamp_column") in known:
        check.problems.append(
            f"timestamp_column '{settings['timestamp_column']}' is what DMS adds to the table's "
            "columns: do not list it among them."
        )
    for setting in ("key", "sequence"):
        for name in _names(settings.get(setting)):
            if name not in known:
                check.problems.append(
                    f"the {setting} column '{name}' is not among the columns "
                    f"({', '.join(sorted(known))})."
                )
    if not settings.get("key"):
        check.problems.append("no key: name the column or columns that identify a row.")
    for why, not_for in _NOT_FOR.get(str(settings.get("format")), {}).items():
        for setting in not_for:
            if settings.get(setting):
                check.problems.append(f"{setting} is not for format {settings['format']}: {why}.")
    _check_columns_of_tables(check, settings, known)
    _check_partial_rows(check, settings, known)
    lateness = settings.get("lateness")
    if lateness and not re.fullmatch(r"\d+ (second|minute|hour|day|week)s?", str(lateness)):
        check.problems.append(f"lateness '{lateness}' must be such as '7 days' or '36 hours'.")
    if settings.get("time_in_name") and not time_pattern(str(settings["time_in_name"])):
        check.problems.append(
            f"time_in_name '{settings['time_in_name']}' must have %Y, %m and %d, and may have %H, "
            "%M and %S, each once, such as '%Y-%m-%d'."
        )
    share = settings.get("max_deleted_share", 0.5)
    if not isinstance(share, int | float) or not 0 <= share <= 1:
        check.problems.append(f"max_deleted_share '{share}' must be a number from 0 to 1.")
    path = str(settings.get("path") or f"{source}/{table}")
    if path.startswith("/") or ".." in path.split("/"):
        check.problems.append(f"path '{path}' must stay below the landing folder.")
    check.finish()
    return Feed(
        source=source,
        table=table,
        schema=node["schema"],
        declared_in=node["original_file_path"],
        format=settings["format"],
        path=path,
        key=_names(settings["key"]),
        columns=columns,
        sequence=_names(settings.get("sequence")),
        header=settings.get("header", "all" if settings["format"] == "extract" else "none"),
        op_in_load=bool(settings.get("op_in_load", False)),
        timestamp_column=settings.get("timestamp_column"),
        loaded_at=str(settings["loaded_at"]) if settings.get("loaded_at") else None,
        delimiter=str(settings.get("delimiter", ",")),
        null_text=_names(settings.get("null_text", ("", "NULL"))),
        include_columns=_names(settings.get("include_columns")),
        exclude_columns=_names(settings.get("exclude_columns")),
        delete_when=settings.get("delete_when"),
        truncate_when=settings.get("truncate_when"),
        ignore_null_updates=_all_or_names(settings.get("ignore_null_updates")),
        changed_columns=settings.get("changed_columns"),
        unavailable_value=settings.get("unavailable_value"),
        lateness=settings.get("lateness"),
        time_in_name=settings.get("time_in_name"),
        max_deleted_share=float(share),
    )


def _all_or_names(value: Any) -> bool | tuple[str, ...]:
    return value if isinstance(value, bool) else _names(value)


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


def time_pattern(text: str) -> re.Pattern[str] | None:
    """The pattern that finds a time such as `%Y-%m-%d` in a path; None when it is no such text."""
    parts = re.split(r"%(.)", text)
    used = parts[1::2]
    if not {"Y", "m", "d"} <= set(used) <= set(_TIME_PARTS) or len(used) > len(set(used)):
        return None
    digits = (f"(?P<{part}>[0-9]{{{_TIME_PARTS[part]}}})" for part in used)
    between = (re.escape(part) for part in parts[0::2])
    pattern = "".join(a + b for a, b in zip(between, (*digits, ""), strict=True))
    return re.compile(f"(?<![0-9]){pattern}(?![0-9])")


def feeds_of(sources: Iterable[Mapping[str, Any]]) -> list[Feed]:
    """Every feed that the project's sources declare, by name."""
    found = [feed for node in sources if (feed := feed_from_source(node))]
    return sorted(found, key=lambda feed: feed.name)
