"""What can be wrong with a record, so that it must not enter the change log."""

from datetime import datetime

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark.feeds import Feed
from tidemark.ingest import macros

OPERATIONS = ("I", "U", "D")
LOAD_OPERATIONS = ("I",)


class Reason(str):
    """Why a file is refused, in a sentence that logs and messages may have.

    `value` is for the dead letter alone: keys of rows, or what a library says, which may quote
    them.
    """

    value: str | None

    def __new__(cls, text: str, value: str | None = None) -> "Reason":
        """Of a sentence, and of what it does not tell."""
        reason = super().__new__(cls, text)
        reason.value = value
        return reason


def of(feed: Feed, kind: str, too_late: datetime | None) -> list[SparkColumn]:
    """What can be wrong with a record, in the order in which it is told."""
    nothing = F.lit(None)
    known = F.struct(
        F.col("_column").alias("column"),
        F.col("_value").alias("value"),
        F.col("_reason").alias("reason"),
    )
    # Of a delete no other column is read.
    is_read = F.col("_column").isNull() | F.col("_column").isin(*feed.key, *feed.sequence_columns)
    is_told = F.col("_reason").isNotNull() & (is_read | ~F.col("_is_delete"))
    found = [F.when(is_told, known)]
    allowed: tuple[str, ...] = OPERATIONS if kind == "changes" else LOAD_OPERATIONS
    if feed.format == "debezium":
        allowed = (*OPERATIONS, "R", "T")
    allowed = (*allowed, *(meant for _, meant in feed.operations if meant not in allowed))
    op = F.col("_told")
    if not feed.is_full_extract:
        is_unknown = ~op.isin(*allowed)
        if feed.needs_op(kind) or feed.format == "debezium":
            is_unknown = op.isNull() | is_unknown
        is_unknown = is_unknown & ~F.col("_deletes") & ~F.col("_truncates")
        unknown = F.lit(f"unknown operation: one of {', '.join(allowed)} was expected")
        found.append(_problem(is_unknown, feed.op_column or "op", F.col("_source_op"), unknown))
    is_truncate = F.coalesce(F.col("_op") == "T", F.lit(False))
    for name in (*feed.key, *(feed.sequence_columns if kind == "changes" else ())):
        what = "key" if name in feed.key else "sequence"
        lacks = F.col(f"`{name}`").isNull()
        # A truncate is of no key; a full load is older than every change.
        lacks = lacks & ~(is_truncate if what == "key" else F.col("_is_initial"))
        found.append(_problem(lacks, name, nothing, F.lit(f"{what} column is NULL")))
    time_column = feed.timestamp_column or "time of the change"
    no_time = F.col("_source_time").isNotNull() & F.col("_told_at").isNull()
    if feed.timestamp_column:
        no_time = no_time | F.col("_source_time").isNull()
    found.append(_problem(no_time, time_column, F.col("_source_time"), F.lit("not a timestamp")))
    is_update = F.coalesce(F.col("_op") == "U", F.lit(False))
    for declared in feed.columns:
        text = F.col(f"`{declared.name}`")
        fits = F.expr(macros.cast_text(f"`{declared.name}`", declared.type)).isNotNull()
        wrong = text.isNotNull() & ~fits
        # A delete may carry only its key: its other columns are never read.
        if declared.name not in (*feed.key, *feed.sequence_columns):
            wrong = wrong & ~F.coalesce(F.col("_is_delete"), F.lit(False))
            if feed.unavailable_value:
                wrong = wrong & ~(is_update & (text == feed.unavailable_value))
        found.append(_problem(wrong, declared.name, text, F.lit(f"not a {declared.type}")))
    if feed.changed_columns:
        listed = macros.names_in_list(f"`{feed.changed_columns}`")
        names = ", ".join(f"'{name.lower()}'" for name in feed.column_names)
        unknown = F.expr(f"coalesce(size(array_except({listed}, array({names}))) > 0, false)")
        reason = F.lit("names a column that is not declared")
        text = F.col(f"`{feed.changed_columns}`")
        found.append(_problem(is_update & unknown, feed.changed_columns, text, reason))
    if feed.checks:
        is_wrong = F.col("_failed").isNotNull() & ~F.coalesce(F.col("_is_delete"), F.lit(False))
        failed = F.concat(F.lit("fails the check "), F.col("_failed"))
        found.append(_problem(is_wrong, None, nothing, failed))
    if feed.ahead:
        latest = F.expr(f"current_timestamp() + interval {feed.ahead}")
        reason = F.lit(f"changed more than {feed.ahead} after it landed (ahead)")
        changed_at = F.col("_changed_at").cast("string")
        found.append(
            _problem(F.col("_told_at") > latest, feed.timestamp_column, changed_at, reason)
        )
    if too_late:
        is_late = (F.col("_changed_at") < F.lit(too_late)) & F.lit(kind == "changes")
        reason = F.lit(
            f"changed more than {feed.lateness} before the newest change known (lateness)"
        )
        changed_at = F.col("_changed_at").cast("string")
        found.append(_problem(is_late, feed.timestamp_column, changed_at, reason))
    return found


def _problem(
    when: SparkColumn, column: str | None, value: SparkColumn, reason: SparkColumn
) -> SparkColumn:
    return F.when(
        when,
        F.struct(
            F.lit(column).cast("string").alias("column"),
            value.cast("string").alias("value"),
            reason.alias("reason"),
        ),
    )
