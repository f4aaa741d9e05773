"""The settings of a feed, one table: what each means, its values, its default and its formats.

The tables in docs/feeds.md come from here: after a change, run `python -m tests.settings_in_docs`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tidemark import feed_values as values
from tidemark.feed_values import Values, one_of

FORMATS = ("dms", "debezium", "extract")
HEADERS = ("none", "load", "all")
# What the sequence of a Debezium feed can be besides columns.
PLACES = (("source",), ("offset",))


@dataclass(frozen=True)
class Formats:
    """The formats that a setting is for, in words, and those that have no use for it, and why.

    `full extract` is one of these, too.
    """

    words: str
    not_for: Mapping[str, str]


def _not_full(why: str) -> Formats:
    return Formats("Not for full extracts", {"full extract": why})


_ORDERED = "their time orders them"
_ALL = Formats("All formats", {})
_UNLESS_ORDERED = _not_full(_ORDERED)
_UNLESS_WHOLE_TABLE = _not_full("each is the whole table")
_UNLESS_WHOLE_ROWS = _not_full("their rows are whole")
_TIMED = Formats(
    "dms, and extracts with `status_column`",
    {"debezium": "an event carries its time", "full extract": _ORDERED},
)
_CSV = Formats("CSV files", {"debezium": "only CSV files have it"})
_DMS = Formats("dms", dict.fromkeys(("debezium", "extract"), "only AWS DMS has it"))
_DMS_AND_DEBEZIUM = Formats("dms and debezium", {"extract": _ORDERED})
_DEBEZIUM = Formats("debezium", dict.fromkeys(("dms", "extract"), "only Debezium has it"))
_EXTRACT = Formats("extract", dict.fromkeys(("dms", "debezium"), "only extracts have it"))


@dataclass(frozen=True)
class Setting:
    """A setting of a feed: its name, meaning, values, default and formats.

    `unset` says in words what holds without the setting, if it has no default; `defaults` are those
    of single formats. With `can_be_off`, null switches the default of a format off.
    """

    name: str
    doc: str
    values: Values
    default: Any
    formats: Formats
    unset: str
    can_be_off: bool
    defaults: Mapping[str, Any]


def _setting(
    doc: str,
    values: Values,
    default: Any = None,
    formats: Formats = _ALL,
    *,
    unset: str = "none",
    can_be_off: bool = False,
    **defaults: Any,
) -> Any:
    told = {"doc": " ".join(doc.split()), "values": values, "formats": formats, "unset": unset}
    metadata = {**told, "can_be_off": can_be_off, "defaults": defaults}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the YAML says of a feed: the table of settings."""

    # --- all formats ---

    format: str = _setting("the program that wrote the files", one_of(*FORMATS), unset="required")
    key: tuple[str, ...] = _setting(
        "identifies a row; never NULL", values.COLUMNS, (), unset="required"
    )
    path: str = _setting(
        "where the files arrive, subfolders included", values.FOLDER, unset="`<source>/<table>`"
    )
    new_columns: str = _setting(
        """what to do with a column that is not declared: add it to the log, current and history, or
        refuse the file""",
        one_of("add", "refuse"),
        "add",
    )
    missing_files: str = _setting(
        """what to do when a file that has been read is gone: nothing, or fail the table. AWS DMS
        deletes the files of a table that the source truncates (HandleSourceTableTruncated); people
        delete files to save space""",
        one_of("ignore", "fail"),
        "ignore",
    )
    strict: bool = _setting("refuse the whole file when one of its rows is bad", values.FLAG, False)
    max_rejected_share: float = _setting(
        """fail the table, and land none of its rows, when a run finds a larger share of bad records
        than this""",
        values.SHARE,
        1,
    )
    max_dead_letters: int | None = _setting(
        """more open dead letters than this (refused rows and files) make the table red
        ([operate.md](operate.md#guard))""",
        values.COUNT,
        unset="none: a warning",
    )
    keep_changes: str | None = _setting(
        """how long the log keeps changes that newer ones have replaced; older changes that still
        arrive are refused ([operate.md](operate.md#keep-changes))""",
        values.KEPT,
        unset="none: keep all",
    )
    max_lag: str | None = _setting(
        """the longest allowed time from the newest change of a load until it lands; a longer time
        makes the table red ([operate.md](operate.md#guard))""",
        values.LAG,
    )
    encoding: str = _setting("encoding of text files, by its Python name", values.ENCODING, "utf-8")
    binary_text: str = _setting(
        "how text files encode a `binary` column",
        one_of("hex", "base64", "utf-8"),
        "base64",
        dms="hex",
    )
    include_columns: tuple[str, ...] = _setting(
        """the columns that current and history have; the key is always included. The log has all
        columns. Set this or `exclude_columns`, not both""",
        values.COLUMNS,
        (),
        unset="all columns",
    )
    exclude_columns: tuple[str, ...] = _setting(
        """the columns that current and history leave out; never the key. The log has all columns.
        Set this or `include_columns`, not both""",
        values.COLUMNS,
        (),
    )
    delete_when: str | None = _setting(
        """a row that meets it is a delete, whatever its operation: `status = 'D'`,
        `deleted_at is not null`""",
        values.CONDITION,
    )
    ahead: str | None = _setting(
        """refuses a change whose time is further in the future than this when it lands. A file
        whose time is that far in the future is refused as a whole, until you confirm it. `null`
        turns the check off""",
        values.AHEAD,
        "1 day",
        can_be_off=True,
    )
    checks: tuple[tuple[str, str], ...] = _setting(
        """SQL conditions on the typed columns, by name. A row that fails a check goes to the dead
        letter, with the name of the first check that it fails. NULL passes, as in an SQL CHECK
        constraint. Deletes are not checked. With `strict`, one such row refuses the file""",
        values.CHECKS,
        (),
    )

    # --- not for full extracts ---

    sequence: tuple[str, ...] = _setting(
        """the columns that order the changes of a key: by the first one, then by the second, and so
        on. They need a `data_type`. If such a column does not belong to the source's table, also
        list it under `exclude_columns`: otherwise every change makes a new version in the history.
        Without a sequence, changes are in the order of the files. For debezium, `source` is the
        position in the source's log and `offset` the position in Kafka""",
        values.COLUMNS,
        (),
        _UNLESS_ORDERED,
        debezium=PLACES[0],
    )
    epochs: tuple[str, ...] = _setting(
        """when the positions in the `sequence` started again from lower values, because a database
        was restored or a topic recreated (see [Order](#order))""",
        values.TIMES,
        (),
        _UNLESS_ORDERED,
    )
    operations: tuple[tuple[str, str], ...] = _setting(
        """maps the operations in the files to Tidemark's: I (insert), U (update), D (delete),
        T (truncate) or skip. `''` is an empty operation""",
        values.OPERATIONS,
        (),
        _UNLESS_ORDERED,
    )
    truncate_when: str | None = _setting(
        "a row that meets it deletes all rows of the table. Its key may be NULL",
        values.CONDITION,
        None,
        _UNLESS_WHOLE_TABLE,
    )
    ignore_null_updates: bool | tuple[str, ...] = _setting(
        """a NULL in an update (op `U`) means "unchanged", in all columns or in those listed""",
        values.FLAG_OR_COLUMNS,
        False,
        _UNLESS_WHOLE_ROWS,
    )
    changed_columns: str | None = _setting(
        """this column of an update lists the columns that the update carries: `a, b`, or JSON. All
        other columns are unchanged; NULL means that the update carries every column. Current and
        history do not have this column""",
        values.COLUMN,
        None,
        _UNLESS_WHOLE_ROWS,
    )
    unavailable_value: str | None = _setting(
        """this text in an update means "unchanged". For DMS, use the task's CsvNoSupValue. `null`:
        no such text""",
        values.UNAVAILABLE,
        None,
        _UNLESS_WHOLE_ROWS,
        can_be_off=True,
        debezium="__debezium_unavailable_value",
    )
    lateness: str | None = _setting(
        """refuses a late-arriving change that is older than the newest change of earlier loads by
        more than this""",
        values.LATENESS,
        None,
        _UNLESS_WHOLE_TABLE,
        unset="none: accept every late change",
    )
    timestamp_column: str | None = _setting(
        """the column with the time of a change. For dms, the column that the task adds
        (TimestampColumnName) after `Op`, in load files too; do not list it in `columns`. For
        extracts, it may be one of the `columns`""",
        values.NAME,
        None,
        _TIMED,
    )

    # --- CSV files ---

    header: str = _setting(
        """which files start with a line of column names: none, only those of the full load, or
        all""",
        one_of(*HEADERS),
        "none",
        _CSV,
        extract="all",
    )
    delimiter: str = _setting(
        r"""separates fields; may be several characters. Write control characters as `\t` or
        `\x01`""",
        values.DELIMITER,
        ",",
        _CSV,
    )
    row_delimiter: str | None = _setting(
        r"""ends records: `'\r\n'`, `'|\n'`. Use single quotes: in double quotes, YAML makes real
        line ends of these, and dbt strips them""",
        values.DELIMITER,
        None,
        _CSV,
        unset="line end",
    )
    quote: str = _setting(
        "`none`: no field is quoted (DMS with Rfc4180=false)", one_of('"', "none"), '"', _CSV
    )
    null_text: tuple[str, ...] = _setting(
        "unquoted texts that mean NULL",
        values.NULL_TEXTS,
        ("", "NULL"),
        _CSV,
        can_be_off=True,
    )

    # --- dms ---

    op_in_load: bool = _setting(
        """full load files have `Op`, too (IncludeOpForFullLoad). Not needed in files with column
        names""",
        values.FLAG,
        False,
        _DMS,
    )
    op_in_changes: bool = _setting(
        "false: change files have no `Op` (CdcInsertsOnly), and each row is an upsert",
        values.FLAG,
        True,
        _DMS,
    )
    file_time_zone: str = _setting(
        """time zone of the times in file names (DatePartitionTimezone). When clocks are set back,
        one hour occurs twice: the file's modification time then decides which of the two is
        meant""",
        values.TIME_ZONE,
        "UTC",
        _DMS,
    )
    transactions_path: str | None = _setting(
        """where `CDC_TXN-...` files arrive (PreserveTransactions, CdcPath). Tidemark reads this
        table's lines from these files""",
        values.FOLDER,
        None,
        _DMS,
    )
    source_table: str = _setting(
        "the name of this table in those files",
        values.TABLE,
        "",
        _DMS,
        unset="`<source>.<table>`",
    )
    before_image_prefix: str | None = _setting(
        """prefix of the columns that the rule add-before-image-columns adds. An update that changes
        the key becomes a delete of the old key and an insert of the new one. Without a header these
        columns come last, in the order of the key""",
        values.PREFIX,
        None,
        _DMS,
    )
    loaded_at: str | None = _setting(
        """the time from which the rows of the full load are valid. For debezium, it applies to
        snapshots before the first of the `epochs`""",
        values.TIME,
        None,
        _DMS_AND_DEBEZIUM,
    )

    # --- debezium ---

    field_prefix: str = _setting(
        "prefix of the fields that flattening adds (add.fields.prefix)",
        values.TEXT,
        "__",
        _DEBEZIUM,
    )
    timestamp_unit: str | tuple[tuple[str, str], ...] | None = _setting(
        "unit of the numbers in `timestamp` columns, for events without a schema",
        values.UNITS,
        None,
        _DEBEZIUM,
    )
    decimals: str | None = _setting(
        """encoding of decimals, for events without a schema. Tidemark refuses a text that could be
        either""",
        one_of("base64", "text"),
        None,
        _DEBEZIUM,
        unset="inferred",
    )
    upserts_only: bool = _setting(
        "true: flattened events without any added field are upserts",
        values.FLAG,
        False,
        _DEBEZIUM,
    )

    # --- extract ---

    status_column: str | None = _setting(
        """the extracts contain changes only, and this column has the operation: I, U, D (or see
        `operations`). Do not list it in `columns`""",
        values.NAME,
        None,
        _EXTRACT,
        unset="none: full extracts",
    )
    max_deleted_share: float = _setting(
        """refuses a full extract that lacks more than this share of the previous extract's keys,
        until you confirm it""",
        values.SHARE,
        0.5,
        _EXTRACT,
    )
    time_in_name: str | None = _setting(
        """the format of the extract's time (UTC) in its path, in the name of the file or of a
        folder: `%Y`, `%m`, `%d`, optionally `%H`, `%M`, `%S`. Files without such a time are
        refused""",
        values.TIME_IN_NAME,
        None,
        _EXTRACT,
    )
    extract_is: str = _setting(
        """`folder`: all files of a folder are one extract, as Spark writes them; needs
        `time_in_name`""",
        one_of("file", "folder"),
        "file",
        _EXTRACT,
    )
    complete_marker: str | None = _setting(
        """reads a folder only after a file of this name has arrived in it (local landing folders
        only)""",
        values.FILE,
        None,
        _EXTRACT,
    )


# The settings that the YAML may have, by name.
SETTINGS = {
    each.name: Setting(name=each.name, default=each.default, **each.metadata)
    for each in fields(Settings)
}
