"""The settings of a feed, one table: each has its values, its default and its formats."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tidemark import feed_values as values
from tidemark.feed_values import Values, one_of

FORMATS = ("dms", "debezium", "extract")
HEADERS = ("none", "load", "all")
# What the sequence of a Debezium feed can be besides columns.
PLACES = (("source",), ("offset",))

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


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the YAML says of a feed: the table of settings."""

    format: str = _setting(one_of(*FORMATS))
    path: str = _setting(values.FOLDER)
    key: tuple[str, ...] = _setting(values.COLUMNS, ())
    sequence: tuple[str, ...] = _setting(
        values.COLUMNS,
        (),
        _NOT_FULL,
        debezium=PLACES[0],
    )
    epochs: tuple[str, ...] = _setting(
        values.TIMES,
        (),
        _NOT_FULL,
    )
    header: str = _setting(
        one_of(*HEADERS),
        "none",
        _CSV,
        extract="all",
    )
    op_in_load: bool = _setting(values.FLAG, False, {**_DMS, "extract": _ORDERED})
    timestamp_column: str | None = _setting(
        values.NAME, None, {**_NOT_FULL, "debezium": "an event carries its time"}
    )
    loaded_at: str | None = _setting(values.TIME, None, {"extract": _ORDERED})
    delimiter: str = _setting(values.DELIMITER, ",", _CSV)
    null_text: tuple[str, ...] = _setting(
        values.NULL_TEXTS,
        ("", "NULL"),
        _CSV,
        can_be_off=True,
    )
    include_columns: tuple[str, ...] = _setting(values.COLUMNS, ())
    exclude_columns: tuple[str, ...] = _setting(values.COLUMNS, ())
    delete_when: str | None = _setting(values.CONDITION)
    truncate_when: str | None = _setting(values.CONDITION, None, _WHOLE_TABLE)
    checks: tuple[tuple[str, str], ...] = _setting(
        values.CHECKS,
        (),
    )
    ignore_null_updates: bool | tuple[str, ...] = _setting(
        values.FLAG_OR_COLUMNS,
        False,
        _WHOLE_ROWS,
    )
    changed_columns: str | None = _setting(values.COLUMN, None, _WHOLE_ROWS)
    unavailable_value: str | None = _setting(
        values.UNAVAILABLE,
        None,
        _WHOLE_ROWS,
        can_be_off=True,
        debezium="__debezium_unavailable_value",
    )
    ahead: str | None = _setting(
        values.AHEAD,
        "1 day",
        can_be_off=True,
    )
    lateness: str | None = _setting(
        values.LATENESS,
        None,
        _WHOLE_TABLE,
    )
    keep_changes: str | None = _setting(values.KEPT)
    time_in_name: str | None = _setting(
        values.TIME_IN_NAME,
        None,
        _EXTRACT,
    )
    max_deleted_share: float = _setting(values.SHARE, 0.5, _EXTRACT)
    new_columns: str = _setting(one_of("add", "refuse"), "add")
    missing_files: str = _setting(one_of("ignore", "fail"), "ignore")
    strict: bool = _setting(values.FLAG, False)
    max_rejected_share: float = _setting(values.SHARE, 1.0)
    max_dead_letters: int | None = _setting(values.COUNT)
    max_lag: str | None = _setting(values.LAG)
    encoding: str = _setting(values.ENCODING, "utf-8")
    binary_text: str = _setting(
        one_of("hex", "base64", "utf-8"),
        "base64",
        dms="hex",
    )
    operations: tuple[tuple[str, str], ...] = _setting(
        values.OPERATIONS,
        (),
        _NOT_FULL,
    )
    row_delimiter: str | None = _setting(values.DELIMITER, None, _CSV)
    quote: str = _setting(one_of('"', "none"), '"', _CSV)
    op_in_changes: bool = _setting(values.FLAG, True, _DMS)
    file_time_zone: str = _setting(values.TIME_ZONE, "UTC", _DMS)
    transactions_path: str | None = _setting(values.FOLDER, None, _DMS)
    source_table: str = _setting(values.TEXT, "", _DMS)
    before_image_prefix: str | None = _setting(values.TEXT, None, _DMS)
    field_prefix: str = _setting(
        values.TEXT_OR_EMPTY,
        "__",
        _DEBEZIUM,
    )
    timestamp_unit: str | tuple[tuple[str, str], ...] | None = _setting(
        values.UNITS,
        None,
        _DEBEZIUM,
    )
    decimals: str | None = _setting(one_of("base64", "text"), None, _DEBEZIUM)
    upserts_only: bool = _setting(values.FLAG, False, _DEBEZIUM)
    status_column: str | None = _setting(values.NAME, None, _EXTRACT)
    extract_is: str = _setting(one_of("file", "folder"), "file", _EXTRACT)
    complete_marker: str | None = _setting(
        values.FILE,
        None,
        _EXTRACT,
    )


# The settings that the YAML may have, by name.
SETTINGS = {
    each.name: Setting(name=each.name, default=each.default, **each.metadata)
    for each in fields(Settings)
}
