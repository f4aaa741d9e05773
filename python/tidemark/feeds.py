"""A feed: the declaration of one table's files in the YAML of a dbt source.

The YAML is the only declaration. feed_settings.py has the table of its settings.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from tidemark.errors import ConfigError, DeclarationError
from tidemark.feed_settings import FORMATS, PLACES, SETTINGS, Settings
from tidemark.feed_values import guess

# What `tidemark erase` does with the rows of a subject.
ERASURES = ("delete", "mask")

# Columns that a history table adds.
RESERVED = ("version_key", "valid_from", "valid_to", "is_current", "version_number")

# Letters of any alphabet. Names with _ in front are Tidemark's.
COLUMN_NAME = re.compile(r"[^\W\d_]\w*")
_SUBJECT = re.compile(r"(\w+(\.\w+\.\w+)?)?")
_TYPE = re.compile(
    r"string|boolean|tinyint|smallint|int|integer|bigint|float|double|date|timestamp"
    r"|timestamp_ntz|binary|decimal\((\d+), ?(\d+)\)"
)


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
class Feed(Settings):
    """One table's change feed, as declared."""

    source: str
    table: str
    schema: str
    declared_in: str
    columns: tuple[Column, ...] = ()

    @property
    def log(self) -> str:
        """The change log's name, as SQL writes it."""
        return f"`{self.schema}`.`{self.table}`"

    @property
    def log_relation(self) -> str:
        """The change log's name without quotes."""
        return f"{self.schema}.{self.table}"

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
        if setting is None:
            known = f"use one of {', '.join(SETTINGS)}.{guess(name, SETTINGS)}"
            problems.append(f"the feed's setting '{name}' is unknown: {known}")
        elif value is not None or setting.can_be_off:
            try:
                given[name] = setting.values.read(name, value)
            except ConfigError as error:
                problems.append(str(error))
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
        if not COLUMN_NAME.fullmatch(column.name):
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
            if kind in setting.formats.not_for and value != setting.default:
                those = "full extracts" if kind == "full extract" else f"format {kind}"
                problems.append(f"{name} is not for {those}: {setting.formats.not_for[kind]}.")


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
                    f"{guess(column, known)}"
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
