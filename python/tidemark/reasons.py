"""Why files and records are refused, and what else landing reports: codes and their sentences.

Code compares codes and never sentences. The readers, in Spark's Python workers, import this module,
so it needs nothing of Spark's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tidemark.errors import printable


@dataclass(frozen=True)
class Reason:
    """A code with its arguments; as text, the sentence that logs and messages may show.

    `value` is for the dead letter only: keys of rows, or what a library says, which may quote a
    row. No log may show it.
    """

    code: "Why"
    arguments: Mapping[str, object] = field(default_factory=dict)
    value: str | None = None

    def __str__(self) -> str:
        # Names of files and columns may contain anything, but the dead letter must be storable.
        return printable(self.code.value.format(**self.arguments))


class Why(Enum):
    """The codes. A code's value is its sentence, with its arguments in braces."""

    value: str

    # A file, before anyone reads it.
    VANISHED = "the file vanished or changed before it was read"
    NO_BYTES = "the file is empty (0 bytes)"
    MISNAMED = "the name {file} is not UTF-8: rename the file, and the next run lands it"
    FOREIGN = "format {format} does not write files with this name"
    NO_TIME_IN_NAME = "the path has no time like {time_in_name} (time_in_name)"
    FILE_AHEAD = (
        "its time {at:%Y-%m-%d %H:%M:%S} is more than {ahead} ahead (ahead); if it is right: "
        "tidemark confirm {file}"
    )
    LEFT_OVER = (
        "it is older than {newer}, which precedes it in the full load, so it is probably left over "
        "from another load. If it belongs to this load: tidemark confirm {file}, or {folder} for "
        "all"
    )
    FILE_BEFORE_CUT = (
        "its time {at:%Y-%m-%d %H:%M:%S} is before {before:%Y-%m-%d}, and the log keeps no changes "
        "from before (keep_changes)"
    )

    # A file that a reader cannot read.
    UNREADABLE = "the file cannot be read: {error}"
    GZIP_DAMAGED = "the gzip file is damaged: {error}"
    GZIP_TOO_LARGE = "the gzip file of {size} bytes unpacks to more than {limit}"
    NOT_TEXT = "not a text file: it is {what}"
    UTF_16 = "not a text file in utf-8: it is UTF-16, set encoding"
    NOT_CSV = "not readable as CSV"
    CSV_HAS_0X1F = "not readable as CSV: it contains the character 0x1F"
    CSV_RECORD_TOO_LARGE = "not readable as CSV: a record exceeds {megabytes} MB"
    ENDS_IN_QUOTES = "the file ends inside quotes: it is incomplete"
    ENDS_IN_ARRAY = "the JSON array has no end"
    NOT_AVRO = "not an Avro file"
    AVRO_DAMAGED = "the Avro file is damaged: {error}"
    NOT_PARQUET = "not a Parquet file"
    PARQUET_DAMAGED = "the Parquet file is damaged: {error}"
    PARQUET_TYPE = "the Parquet file has an unsupported type: {error}"
    HAS_HEADER = "the file starts with a header: check the feed's header"
    LACKS_OPERATION = "the file lacks {column}"
    LACKS_TIME = "the file lacks {column} (timestamp_column)"
    LACKS_KEY_COLUMNS = "the file lacks {columns} (key)"
    REPEATS_COLUMNS = "the file repeats a column: {columns}"
    NEW_COLUMNS = "the file has columns that are not declared: {columns}"
    NO_OFFSET = "the name has no offset to order by (sequence: offset)"

    # A file, by its records and by those of other files.
    BAD_RECORDS = "{bad} of its {records} records are bad, and the feed is strict"
    OTHER_FILE_REFUSED = "{other} of the same extract was refused"
    EMPTY_EXTRACT = (
        "the extract has no rows: it would delete every row of the table; if it is right: "
        "tidemark confirm {extract}"
    )
    REPEATED_KEYS = (
        "{keys} keys are in the extract more than once; the column value of tidemark.dead_letter "
        "has some of them"
    )
    LACKS_KEYS = (
        "the extract lacks {gone} of the {keys} keys of {before} before it, which is more than "
        "max_deleted_share {share:g}; if they are to be deleted: tidemark confirm {extract}"
    )
    POSITIONS_CONTRADICT = (
        "its changes contradict their positions: a key (the column value of tidemark.dead_letter) "
        "changed at {later} at position {position}, and at {earlier} at the {same_or_later} "
        "position {other}. If the source's log or the topic was created again, add the time to "
        "epochs and run tidemark replay. If the changes are correct: tidemark confirm {file}"
    )
    COLUMNS_TAKE_TURNS = (
        "its columns alternate with those of {other} ({difference}), so two AWS DMS tasks probably "
        "write to one folder: give each its own. If the source has changed like this: "
        "tidemark confirm {file}"
    )

    # A record that a reader cannot read.
    UNREADABLE_RECORD = "the record cannot be read: {error}"
    WRONG_WIDTH = "{found} fields instead of {expected}"
    NOT_IN_ENCODING = "not {encoding}"
    HAS_NUL = "contains a NUL character"
    HAS_ESCAPED_NUL = "contains a NUL character ({escape})"
    HAS_HALF_A_PAIR = "contains half a surrogate pair ({escape})"
    NOT_JSON = "not JSON: {error}"
    NOT_AN_OBJECT = "not a JSON object"
    TOO_DEEP = "objects and lists are nested more than {deepest} levels deep"
    SAME_FLAT_NAME = "two fields have the same flattened name"
    DATE_OUT_OF_RANGE = "$date is not in milliseconds within the years 1 to 9999"
    BINARY_LACKS_BASE64 = "$binary has no base64"
    NOT_BINARY_TEXT = "not {encoding} (binary_text)"
    NO_EVENT = (
        "not a Debezium event: no envelope and no field that starts with {prefix} "
        "(check field_prefix, upserts_only)"
    )
    NO_ROW_IMAGE = "operation {operation} without the row in {image}"
    NO_POSITION = (
        "no position in the source's log (lsn, file and pos, scn): "
        "add it to add.fields, or set another sequence"
    )
    NO_UNIT = "a number without a unit: set timestamp_unit"
    BASE64_OR_NUMBER = "base64 or a number: set decimals"
    NOT_BASE64 = "not base64"
    INVALID_SCALE = "the decimal has an invalid scale: {scale}"

    # A record, by the feed's declaration and the log.
    UNKNOWN_OPERATION = "unknown operation: expected one of {allowed}"
    KEY_IS_NULL = "key column is NULL"
    SEQUENCE_IS_NULL = "sequence column is NULL"
    NO_TIMESTAMP = "not a timestamp"
    NOT_OF_TYPE = "not a {type}"
    UNDECLARED_COLUMN = "names a column that is not declared"
    FAILS_CHECK = "fails the check {check}"
    RECORD_AHEAD = "changed more than {ahead} after it landed (ahead)"
    TOO_LATE = "changed more than {lateness} before the newest change known (lateness)"
    BEFORE_CUT = (
        "changed before {before:%Y-%m-%d}, and the log keeps no changes from before (keep_changes)"
    )
    BEFORE_LAST_OLD = (
        "its place in the order is not after that of the key's last change from before "
        "{before:%Y-%m-%d}, and the log keeps no earlier changes (keep_changes)"
    )

    # A whole table, which lands nothing in this run.
    TOO_MANY_BAD = (
        "{bad} of {records} records are bad, which is more than max_rejected_share {share:g}, so "
        "none of them landed. Examples: {some}"
    )
    FILES_MISSING = (
        "{count} files that landed before are no longer in the landing folder, such as {first}. "
        "AWS DMS deletes a table's files when the source truncates it. No rows were deleted: put "
        "the files back, or set missing_files: ignore."
    )
    TO_BE_RETRACTED = (
        "{file} is to be retracted, and its tables rebuilt without it: `tidemark run` does both"
    )

    # Remarks.
    DELETES_KEYS = "{extract} lacks {gone} of the {keys} keys of {before}, so it deletes them"
    WISH_WITHOUT_FILE = (
        "no longer in the landing folder: {files}. Put it back, or give it up: tidemark retract "
        "FILE. That closes its dead letters, and deletes its rows if it has landed"
    )
    OF_ERASED = (
        "{count} records of erased subjects did not land, but they are still in their files: "
        "{files}. Delete these, or remove the records"
    )
    WRITTEN_AGAIN = (
        "{file} was written again with the same rows, after changes. It counts as a copy of the "
        "file. If it is a reload, run: tidemark confirm {file}"
    )

    def __call__(self, value: str | None = None, **arguments: object) -> Reason:
        """The reason with these arguments."""
        return Reason(self, arguments, value)


_REPLAY_IS_NOT_NEXT = {
    why.name
    for why in (
        # The sentence says what is.
        *(Why.MISNAMED, Why.FILE_AHEAD, Why.LEFT_OVER, Why.EMPTY_EXTRACT, Why.LACKS_KEYS),
        *(Why.POSITIONS_CONTRADICT, Why.COLUMNS_TAKE_TURNS, Why.TO_BE_RETRACTED),
        *(Why.WISH_WITHOUT_FILE, Why.WRITTEN_AGAIN),
        # The log was cut: a file that is read again gives the same answer.
        *(Why.FILE_BEFORE_CUT, Why.BEFORE_CUT, Why.BEFORE_LAST_OLD),
    )
}


def replay_is_next(code: str | None) -> bool:
    """Whether `tidemark replay` is what to do, after the cause is fixed.

    Also if the code is of a newer Tidemark, or missing, as in dead letters of older ones.
    """
    return code not in _REPLAY_IS_NOT_NEXT
