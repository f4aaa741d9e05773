"""The problems for which a record must not enter the change log."""

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark.feeds import Feed
from tidemark.ingest import macros
from tidemark.reasons import Reason, Why

# Times, and the reason why changes from before are refused.
TooLate = Sequence[tuple[datetime, Reason]]

OPERATIONS = ("I", "U", "D")
LOAD_OPERATIONS = ("I",)


def allowed_operations(feed: Feed, kind: str) -> tuple[str, ...]:
    """The operations that records of files of this kind may have."""
    allowed: tuple[str, ...] = OPERATIONS if kind == "changes" else LOAD_OPERATIONS
    if feed.format == "debezium":
        allowed = (*OPERATIONS, "R", "T")
    return (*allowed, *(meant for _, meant in feed.operations if meant not in allowed))


def of(feed: Feed, kind: str, too_late: TooLate) -> list[SparkColumn]:
    """The problems that a record can have; a record with several is refused for the first."""
    nothing = F.lit(None)
    known = F.struct(
        F.col("_column").alias("column"),
        F.col("_value").alias("value"),
        F.col("_reason").alias("reason"),
        F.col("_code").alias("code"),
    )
    # A delete needs no other columns.
    is_read = F.col("_column").isNull() | F.col("_column").isin(*feed.key, *feed.sequence_columns)
    is_told = F.col("_reason").isNotNull() & (is_read | ~F.col("_is_delete"))
    found = [F.when(is_told, known)]
    allowed = allowed_operations(feed, kind)
    op = F.col("_meant_op")
    if not feed.is_full_extract:
        is_unknown = ~op.isin(*allowed)
        if feed.needs_op(kind) or feed.format == "debezium":
            is_unknown = op.isNull() | is_unknown
        is_unknown = is_unknown & ~F.col("_deletes") & ~F.col("_truncates")
        unknown = Why.UNKNOWN_OPERATION(allowed=", ".join(allowed))
        found.append(_problem(is_unknown, feed.op_column or "op", F.col("_source_op"), unknown))
    is_truncate = F.coalesce(F.col("_op") == "T", F.lit(False))
    for name in (*feed.key, *(feed.sequence_columns if kind == "changes" else ())):
        is_key = name in feed.key
        lacks = F.col(f"`{name}`").isNull()
        # A truncate has no key; a full load is older than every change.
        lacks = lacks & ~(is_truncate if is_key else F.col("_is_initial"))
        why = Why.KEY_IS_NULL if is_key else Why.SEQUENCE_IS_NULL
        found.append(_problem(lacks, name, nothing, why()))
    time_column = feed.timestamp_column or "time of the change"
    no_time = F.col("_source_time").isNotNull() & F.col("_source_at").isNull()
    if feed.timestamp_column:
        no_time = no_time | F.col("_source_time").isNull()
    found.append(_problem(no_time, time_column, F.col("_source_time"), Why.NO_TIMESTAMP()))
    is_update = F.coalesce(F.col("_op") == "U", F.lit(False))
    for declared in feed.columns:
        text = F.col(f"`{declared.name}`")
        fits = F.expr(macros.cast_text(f"`{declared.name}`", declared.type)).isNotNull()
        wrong = text.isNotNull() & ~fits
        # A delete may carry only its key: nobody reads its other columns.
        if declared.name not in (*feed.key, *feed.sequence_columns):
            wrong = wrong & ~F.coalesce(F.col("_is_delete"), F.lit(False))
            if feed.unavailable_value:
                wrong = wrong & ~(is_update & (text == feed.unavailable_value))
        found.append(_problem(wrong, declared.name, text, Why.NOT_OF_TYPE(type=declared.type)))
    if feed.changed_columns:
        listed = macros.names_in_list(f"`{feed.changed_columns}`")
        names = ", ".join(f"'{name.lower()}'" for name in feed.column_names)
        is_undeclared = f"coalesce(size(array_except({listed}, array({names}))) > 0, false)"
        text = F.col(f"`{feed.changed_columns}`")
        reason = Why.UNDECLARED_COLUMN()
        found.append(
            _problem(is_update & F.expr(is_undeclared), feed.changed_columns, text, reason)
        )
    for check, _ in feed.checks:
        is_wrong = (F.col("_failed") == check) & ~F.coalesce(F.col("_is_delete"), F.lit(False))
        found.append(_problem(is_wrong, None, nothing, Why.FAILS_CHECK(check=check)))
    if feed.ahead:
        latest = F.expr(f"current_timestamp() + interval {feed.ahead}")
        reason = Why.RECORD_AHEAD(ahead=feed.ahead)
        changed_at = F.col("_changed_at").cast("string")
        found.append(
            _problem(F.col("_source_at") > latest, feed.timestamp_column, changed_at, reason)
        )
    for at, reason in too_late if kind == "changes" else ():
        is_late = F.col("_changed_at") < F.lit(at)
        changed_at = F.col("_changed_at").cast("string")
        found.append(_problem(is_late, feed.timestamp_column, changed_at, reason))
    return found


def _problem(
    when: SparkColumn, column: str | None, value: SparkColumn, reason: Reason
) -> SparkColumn:
    return F.when(
        when,
        F.struct(
            F.lit(column).cast("string").alias("column"),
            value.cast("string").alias("value"),
            F.lit(str(reason)).alias("reason"),
            F.lit(reason.code.name).alias("code"),
        ),
    )
