"""Why files and records are refused, and what else landing reports: codes and their sentences.

Code compares codes and never sentences. The readers' own sentences, for files that they cannot
read and values that they cannot understand, are in `tidemark.readers`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tidemark import readers


@dataclass(frozen=True)
class Reason:
    """A code with its arguments; as text, the sentence that logs and messages may show.

    `value` is for the dead letter only: keys of rows, which no log may show.
    """

    code: "Why"
    arguments: Mapping[str, object] = field(default_factory=dict)
    value: str | None = None

    def __str__(self) -> str:
        return self.code.value.format(**self.arguments)


class Why(Enum):
    """The codes. A code's value is its sentence, with its arguments in braces."""

    value: str

    # A file, before anyone reads it.
    VANISHED = readers.VANISHED
    NO_BYTES = readers.NO_BYTES
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

    # A record.
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
        "no longer in the landing folder: {files}. Put it back, or close its dead letters: "
        "tidemark retract FILE"
    )
    OF_ERASED = (
        "{count} records of erased subjects did not land, but they are still in their files: "
        "{files}. Delete these, or remove the records"
    )
    WRITTEN_AGAIN = (
        "{file} was written again with the same rows, after changes. It counts as a copy of the "
        "file. If it is a reload, run: tidemark confirm {file}"
    )

    @property
    def replay_is_next(self) -> bool:
        """Whether `tidemark replay` is what to do, after the cause is fixed.

        Other sentences name the command and its condition, or reading the file again gives the
        same answer.
        """
        return "tidemark " not in self.value and self not in (Why.MISNAMED, Why.FILE_BEFORE_CUT)

    def __call__(self, value: str | None = None, **arguments: object) -> Reason:
        """The reason with these arguments."""
        return Reason(self, arguments, value)
