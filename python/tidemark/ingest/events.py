"""Records to events: the rows of a change log, with the reason of each that must not enter it."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark import feed_values
from tidemark.errors import ConfigError
from tidemark.feeds import Feed
from tidemark.ingest import erased, log, macros, problems, reading
from tidemark.ingest.files import LandedFile
from tidemark.ingest.load import Load
from tidemark.reasons import Why
from tidemark.spark import session
from tidemark.storage import from_micros

# The condition of the events that enter the log.
IS_GOOD = "_reason is null and _skipped is null"


def of(load: Load, files: Sequence[LandedFile], *, in_parts: bool = True) -> DataFrame:
    """The events of files: the log's columns, and `_reason`, `_code`, `_column`, `_value`, `_raw`.

    With `in_parts` several workers read one large file.
    """
    too_late = _too_late(load)
    found = reading.union(
        [
            _events(load, reading.records(load, of_kind, kind, in_parts=in_parts), kind, too_late)
            for kind in ("load", "changes")
            if (of_kind := [file for file in files if file.kind == kind])
        ]
    )
    return erased.left_out(load, found)


def _events(load: Load, records: DataFrame, kind: str, too_late: problems.TooLate) -> DataFrame:
    feed = load.feed
    is_load = feed.format == "dms" and kind == "load"
    time_of_change = F.col("_source_time")
    if feed.timestamp_column in feed.column_names:
        time_of_change = F.col(f"`{feed.timestamp_column}`")
    records = records.withColumn("_source_time", time_of_change).withColumn(
        "_source_at", F.expr(macros.cast_text("_source_time", "timestamp"))
    )
    is_initial = F.lit(is_load) if feed.format != "debezium" else F.col("_is_snapshot")
    # The place in Kafka, which orders Debezium's files, is not a time.
    file_time = "_written_at" if feed.format == "debezium" else "_file_at"
    changed_at = F.coalesce("_source_at", file_time)
    if feed.loaded_at:
        loaded_at = F.lit(feed.loaded_at).cast("timestamp")
        is_of_then = is_initial
        if feed.format == "debezium" and feed.epochs:
            # A snapshot from a later epoch keeps its own time.
            is_of_then = is_initial & (changed_at < F.lit(feed.epochs[0]).cast("timestamp"))
        changed_at = F.when(is_of_then, loaded_at).otherwise(changed_at)
    columns = [f"`{name}`" for name in feed.column_names]
    return (
        _with_conditions(_with_operation(records, feed, kind), feed)
        .withColumn(
            "_op",
            F.when(F.col("_truncates"), "T").when(F.col("_deletes"), "D").otherwise(F.col("_op")),
        )
        .withColumn("_changed_at", changed_at)
        .withColumn("_is_initial", F.coalesce(is_initial, F.lit(False)))
        .withColumn("_load_id", F.lit(load.plan.load_id).cast("bigint"))
        .withColumn("_landed_at", F.current_timestamp())
        .withColumn("_is_delete", F.coalesce(F.col("_op").isin("D", "T"), F.lit(False)))
        .withColumn("_problem", F.coalesce(*problems.of(feed, kind, too_late)))
        .withColumn("_raw", F.when(F.col("_position").isNotNull(), _raw(feed, kind)))
        .select(
            *columns,
            *log.COLUMNS,
            "_source_at",
            "_file_columns",
            "_others",
            "_skipped",
            F.when(F.col("_skipped").isNull(), F.col("_problem.reason")).alias("_reason"),
            F.col("_problem.code").alias("_code"),
            F.col("_problem.column").alias("_column"),
            F.col("_problem.value").alias("_value"),
            "_raw",
        )
    )


def _raw(feed: Feed, kind: str) -> SparkColumn:
    """A record as its file has it, or nearly so."""
    fields = [f"`{name}`" for name in feed.column_names]
    if feed.timestamp_column in feed.leading_fields(kind):
        fields.insert(0, "_source_time")
    if feed.op_column in feed.leading_fields(kind):
        fields.insert(0, "_source_op")
    as_csv = F.when(F.col("_file").rlike(r"(?i)\.csv(\.gz)?$"), F.to_csv(F.struct(*fields)))
    return F.coalesce("_raw", as_csv, F.to_json(F.struct(*fields)))


def _with_operation(records: DataFrame, feed: Feed, kind: str) -> DataFrame:
    """The records with `_op`, and `_skipped` where the feed's `operations` say so."""
    meant = F.col("_source_op")
    for text, operation in feed.operations:
        is_it = F.coalesce(F.col("_source_op"), F.lit("")) == text
        meant = F.when(is_it, F.lit(operation)).otherwise(meant)
    if feed.is_full_extract or (feed.format == "dms" and kind == "load"):
        op = F.lit("R")
    elif feed.needs_op(kind) or feed.format == "debezium":
        op = meant
    else:
        op = F.coalesce(meant, F.lit("U"))
    skipped = F.when(meant == "skip", F.lit("operation")).otherwise(F.col("_skipped"))
    return records.withColumns({"_meant_op": meant, "_op": op, "_skipped": skipped})


def _with_conditions(records: DataFrame, feed: Feed) -> DataFrame:
    """The records with the results of the feed's conditions on its typed columns.

    `_deletes` and `_truncates` are true or false, `_failed` is the name of the first of the
    feed's `checks` that is false. Raises ConfigError when Spark does not understand a condition.
    """
    conditions = {
        "_deletes": ("delete_when", feed.delete_when),
        "_truncates": ("truncate_when", feed.truncate_when),
        **{f"_check_{at}": (f"check {name}", sql) for at, (name, sql) in enumerate(feed.checks)},
    }
    if not any(sql for _, sql in conditions.values()):
        no = F.lit(False)
        return records.withColumns(
            {"_deletes": no, "_truncates": no, "_failed": F.lit(None).cast("string")}
        )
    names = feed.column_names
    others = [f"`{name}`" for name in records.columns if name not in names]
    found = records.select(
        *others,
        F.struct(*[f"`{name}`" for name in names]).alias("_texts"),
        *[F.expr(macros.cast_text(f"`{c.name}`", c.type)).alias(c.name) for c in feed.columns],
    )
    for name, (setting, condition) in conditions.items():
        try:
            # As in a CHECK of SQL, an unknown result passes.
            unknown = "true" if name.startswith("_check_") else "false"
            if name == "_check_0":
                found = _without_left_out(found, feed)
            holds = F.expr(f"coalesce({condition}, {unknown})") if condition else F.lit(False)
            found = found.withColumn(name, holds)
        except AnalysisException as error:
            raise ConfigError(
                f"{feed.declared_in}, {feed.name}: {setting} '{condition}' is no condition "
                f"on the columns {', '.join(names)}: {session.readable(error)}"
            ) from error
    failed = [
        F.when(~F.col(f"_check_{at}"), F.lit(name)) for at, (name, _) in enumerate(feed.checks)
    ]
    found = found.withColumn("_failed", F.coalesce(F.lit(None).cast("string"), *failed))
    return found.select(*others, "_deletes", "_truncates", "_failed", "_texts.*")


def _without_left_out(records: DataFrame, feed: Feed) -> DataFrame:
    """The records with NULL in the columns that an update leaves out: a check passes NULL."""
    is_update = F.coalesce(F.col("_op") == "U", F.lit(False))
    is_listed = None
    if feed.changed_columns:
        is_listed = macros.names_in_list(f"_texts.`{feed.changed_columns}`")
    carried = {}
    for name in feed.column_names:
        is_left_out = F.lit(False)
        if feed.unavailable_value:
            text = F.col("_texts").getField(name)
            is_left_out = text.eqNullSafe(feed.unavailable_value)
        if is_listed and name not in feed.key:
            is_left_out = is_left_out | F.expr(
                f"not coalesce(array_contains({is_listed}, '{name.lower()}'), true)"
            )
        carried[name] = F.when(~(is_update & is_left_out), F.col(f"`{name}`"))
    return records.withColumns(carried)


def _too_late(load: Load) -> problems.TooLate:
    """The feed refuses changes from before these times, and why."""
    found = []
    if load.cut and not load.feed.is_full_extract:
        found.append((load.cut.before, Why.BEFORE_CUT(before=load.cut.before)))
    if not load.feed.lateness:
        return found
    latest = f"unix_micros(max(_changed_at) - interval {load.feed.lateness}) as at"
    at = load.known.where("not _is_initial").selectExpr(latest).collect()[0]["at"]
    if at is not None:
        found.append((from_micros(at), Why.TOO_LATE(lateness=load.feed.lateness)))
    return found


def latest(ahead: str) -> datetime:
    """The latest time that a change may have now."""
    return datetime.now(UTC) + feed_values.span(ahead)
