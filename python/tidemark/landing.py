"""Landing: new files into the change logs, each file version exactly once.

A table's load is planned in the ledger first, then appended to the log under a Delta
transaction id, then marked as landed. A run that dies in between leaves its plan behind; the
next run carries it out again under the same id, which Delta applies at most once.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark import csv_records, files, ledger, macros
from tidemark.errors import SetupError
from tidemark.feeds import Feed
from tidemark.files import LandedFile

OPERATIONS = ("I", "U", "D")
LOAD_OPERATIONS = ("I",)
# What landing adds to the source's columns; see docs/architecture.md. They stand first, because
# Delta keeps statistics, by which builds skip files, of a table's first 32 columns only.
LOG_COLUMNS = (
    "_load_id bigint, _op string, _is_delete boolean, _is_initial boolean, "
    "_changed_at timestamp, _file_at timestamp, _file string, _position bigint, "
    "_landed_at timestamp"
)


@dataclass
class Landed:
    """What one run landed of one table."""

    feed: Feed
    files: int = 0
    rows: int = 0
    rejected: int = 0
    set_aside: int = 0
    note: str = ""

    def add(self, plan: ledger.Plan, outcome: ledger.Outcome) -> None:
        """Count one plan that was carried out."""
        self.files += len(plan.files) - len(outcome.set_aside)
        self.rows += outcome.total_rows
        self.rejected += sum(outcome.rejected.values())
        self.set_aside += len(outcome.set_aside)


def land(spark: SparkSession, feeds: Iterable[Feed], root: Path, *, run_id: str) -> list[Landed]:
    """Land every new file of the feeds; gives one entry for each feed.

    Raises SetupError when the landing folder itself is missing.
    """
    if not root.is_dir():
        raise SetupError(
            f"The landing folder {root} does not exist: create it, "
            "or point TIDEMARK_LANDING at the folder where your change files arrive."
        )
    ledger.create_tables(spark)
    book = ledger.read(spark)
    work = [_plan(spark, feed, root, book) for feed in feeds]
    new = [(landed.feed, plan) for landed, plans in work for plan in plans if plan.is_new]
    ledger.write_planned(spark, new, run_id)
    done: list[tuple[Feed, ledger.Plan, ledger.Outcome]] = []
    try:
        for landed, plans in work:
            for plan in plans:
                outcome = _carry_out(spark, landed.feed, root, plan, run_id)
                done.append((landed.feed, plan, outcome))
                landed.add(plan, outcome)
    finally:
        ledger.write_finished(spark, done, run_id)
    return [landed for landed, _ in work]


def _plan(
    spark: SparkSession, feed: Feed, root: Path, book: ledger.Ledger
) -> tuple[Landed, list[ledger.Plan]]:
    """What is to be landed of one table: what a run that died left behind, then new files."""
    _create_log(spark, feed)
    landed = Landed(feed)
    plans = book.unfinished(feed)
    found = files.listed(root, feed)
    if not found and not (root / feed.path).is_dir():
        landed.note = f"{root / feed.path} does not exist"
    new = [file for file in found if not book.knows(feed, file)]
    if new:
        plans.append(book.plan(feed, new))
    return landed, plans


def _create_log(spark: SparkSession, feed: Feed) -> None:
    spark.sql(f"create schema if not exists `{feed.schema}`")
    log = f"`{feed.schema}`.`{feed.table}`"
    if not spark.catalog.tableExists(log):
        columns = ", ".join(f"`{name}` string" for name in feed.column_names)
        # Deletes in files of their own: they are a table's tombstones, and looked up as such.
        spark.sql(
            f"create table {log} ({LOG_COLUMNS}, {columns}) using delta partitioned by (_is_delete)"
        )


def _carry_out(
    spark: SparkSession, feed: Feed, root: Path, plan: ledger.Plan, run_id: str
) -> ledger.Outcome:
    """Land the plan's files under its load id; doing it again after a crash changes nothing."""
    refused: dict[str, str] = {}
    readable: list[LandedFile] = []
    for file in plan.files:
        reason = _refusal(feed, root, plan, file)
        if reason:
            refused[file.path] = reason
        else:
            readable.append(file)
    outcome = ledger.Outcome(set_aside=set(refused))
    if not readable:
        _append_dead_letters(None, feed, plan, refused, run_id, spark)
        return outcome
    events = _events(spark, feed, root, readable, plan.load_id).persist()
    try:
        outcome.count(
            events.where("_op is null or _op <> 'T'")
            .groupBy("_file")
            .agg(
                F.expr("count_if(_reason is null) as rows"),
                F.expr("count_if(_reason is not null and _position is not null) as rejected"),
                F.expr("count_if(_position is null) as unreadable"),
            )
            .collect()
        )
        if outcome.total_rows:
            _append(events.where("_reason is null"), feed, plan)
        if outcome.has_dead_letters:
            _append_dead_letters(events, feed, plan, refused, run_id, spark)
    finally:
        events.unpersist()
    return outcome


def _refusal(feed: Feed, root: Path, plan: ledger.Plan, file: LandedFile) -> str | None:
    if file.kind == "foreign":
        return f"the name is none that format {feed.format} writes"
    if file.path in plan.rewritten and feed.format == "dms" and file.kind == "load":
        return (
            "a load file that landed before has other content now; reloads are not applied yet, "
            "so nothing of it was taken"
        )
    if file.size == 0:
        # Spark passes over such a file without a word.
        return "the file is empty (0 bytes)"
    if not (root / file.path).is_file():
        return "the file vanished before it was read"
    return None


def _layout(feed: Feed, kind: str) -> csv_records.Layout:
    extra: list[str] = []
    if feed.format == "dms" and (kind == "changes" or feed.op_in_load):
        extra.append("Op")
    if feed.format == "dms" and feed.timestamp_column:
        extra.append(feed.timestamp_column)
    return csv_records.Layout(
        fields=(*extra, *feed.column_names),
        required=(*extra, *feed.key),
        header=feed.header == "all" or (feed.header == "load" and kind == "load"),
        delimiter=feed.delimiter,
        null_text=feed.null_text,
        may_be_empty=feed.format != "extract",
    )


def _events(
    spark: SparkSession, feed: Feed, root: Path, found: list[LandedFile], load_id: int
) -> DataFrame:
    """The log's rows, and `_reason`, `_column`, `_value`, `_raw` of those that must not enter."""
    parts = [
        _read(spark, feed, root, [file for file in found if file.kind == kind], kind, load_id)
        for kind in ("load", "changes")
        if any(file.kind == kind for file in found)
    ]
    events = parts[0]
    for part in parts[1:]:
        events = events.unionByName(part)
    if feed.format == "extract":
        events = events.unionByName(_truncations(events), allowMissingColumns=True)
    return events


def _read(
    spark: SparkSession,
    feed: Feed,
    root: Path,
    found: list[LandedFile],
    kind: str,
    load_id: int,
) -> DataFrame:
    layout = _layout(feed, kind)
    # Spark takes [ ] { } * ? in a path as a pattern.
    pattern = str.maketrans({character: f"\\{character}" for character in "[]{}*?\\"})
    paths = [str(root / file.path).translate(pattern) for file in found]
    records = (
        spark.read.format("binaryFile")
        .load(paths)
        .select(F.regexp_replace("path", "^file:/+", "/").alias("path"), "content")
        .mapInArrow(csv_records.reader(layout), csv_records.record_schema(layout))
    )
    names = spark.createDataFrame(
        [(str(root / file.path), file.path, file.time) for file in found],
        "_path string, _file string, _file_at timestamp",
    )
    initial = feed.format == "dms" and kind == "load"
    has_op = "Op" in layout.fields
    timestamp = (
        F.expr(macros.cast_text(f"`{feed.timestamp_column}`", "timestamp"))
        if feed.format == "dms" and feed.timestamp_column
        else F.lit(None).cast("timestamp")
    )
    if initial and feed.loaded_at:
        timestamp = F.lit(feed.loaded_at).cast("timestamp")
    op = F.lit("R") if kind == "load" else F.col("Op") if has_op else F.lit("U")
    problem = F.coalesce(*_problems(feed, kind, has_op))
    return (
        records.join(F.broadcast(names), "_path", "left")
        .withColumn("_op", op)
        .withColumn("_changed_at", F.coalesce(timestamp, "_file_at"))
        .withColumn("_is_initial", F.lit(initial))
        .withColumn("_load_id", F.lit(load_id).cast("bigint"))
        .withColumn("_landed_at", F.current_timestamp())
        .withColumn("_is_delete", F.col("_op") == "D")
        .withColumn("_problem", problem)
        .withColumn(
            "_raw",
            F.when(
                F.col("_position").isNotNull(),
                F.coalesce("_raw", F.to_csv(F.struct(*[f"`{n}`" for n in layout.fields]))),
            ),
        )
        .select(
            *[f"`{name}`" for name in feed.column_names],
            *[entry.split()[0] for entry in LOG_COLUMNS.split(", ")],
            F.col("_problem.reason").alias("_reason"),
            F.col("_problem.column").alias("_column"),
            F.col("_problem.value").alias("_value"),
            "_raw",
        )
    )


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


def _problems(feed: Feed, kind: str, has_op: bool) -> list[SparkColumn]:
    """What can be wrong with a record, in the order in which it is told."""
    nothing = F.lit(None)
    problems = [_problem(F.col("_reason").isNotNull(), None, nothing, F.col("_reason"))]
    if has_op:
        op, allowed = F.col("Op"), OPERATIONS if kind == "changes" else LOAD_OPERATIONS
        unknown = F.lit(f"unknown operation: one of {', '.join(allowed)} was expected")
        problems.append(_problem(op.isNull() | ~op.isin(*allowed), "Op", op, unknown))
    for name in (*feed.key, *(feed.sequence if kind == "changes" else ())):
        what = "key" if name in feed.key else "sequence"
        column = F.col(f"`{name}`")
        problems.append(_problem(column.isNull(), name, nothing, F.lit(f"{what} column is NULL")))
    if feed.format == "dms" and feed.timestamp_column:
        text = F.col(f"`{feed.timestamp_column}`")
        fits = F.expr(macros.cast_text(f"`{feed.timestamp_column}`", "timestamp")).isNotNull()
        reason = F.lit("not a timestamp")
        problems.append(_problem(text.isNull() | ~fits, feed.timestamp_column, text, reason))
    is_delete = F.col("Op") == "D" if kind == "changes" and has_op else F.lit(False)
    for declared in feed.columns:
        text = F.col(f"`{declared.name}`")
        fits = F.expr(macros.cast_text(f"`{declared.name}`", declared.type)).isNotNull()
        wrong = text.isNotNull() & ~fits
        # A delete may carry only its key: its other columns are never read.
        if declared.name not in (*feed.key, *feed.sequence):
            wrong = wrong & ~F.coalesce(is_delete, F.lit(False))
        problems.append(_problem(wrong, declared.name, text, F.lit(f"not a {declared.type}")))
    return problems


def _truncations(events: DataFrame) -> DataFrame:
    """A full extract empties the table before its rows: what it lacks is deleted.

    Not an extract without a good row, nor one with a bad row: the rows that could not be read
    would count as deleted.
    """
    return (
        events.groupBy("_file", "_file_at", "_changed_at", "_load_id", "_landed_at")
        .agg(F.count("_reason").alias("_bad"), F.count("*").alias("_all"))
        .where("_bad = 0 and _all > 0")
        .selectExpr(
            "_file",
            "_file_at",
            "_changed_at",
            "_load_id",
            "_landed_at",
            "'T' as _op",
            "false as _is_initial",
            "0L as _position",
            "true as _is_delete",
        )
    )


def _append(events: DataFrame, feed: Feed, plan: ledger.Plan) -> None:
    (
        events.drop("_reason", "_column", "_value", "_raw")
        .write.format("delta")
        .mode("append")
        .option("txnAppId", f"tidemark/{feed.name}")
        .option("txnVersion", plan.load_id)
        .option("mergeSchema", "true")
        .saveAsTable(f"`{feed.schema}`.`{feed.table}`")
    )


def _append_dead_letters(
    events: DataFrame | None,
    feed: Feed,
    plan: ledger.Plan,
    refused: dict[str, str],
    run_id: str,
    spark: SparkSession,
) -> None:
    whole = [(path, None, None, None, reason, None) for path, reason in refused.items()]
    rows = spark.createDataFrame(whole, ledger.DEAD_LETTER_ROW)
    if events is not None:
        rows = rows.unionByName(
            events.where("_reason is not null").selectExpr(
                "_file as file",
                "_position as position",
                "_column as column",
                "_value as value",
                "_reason as reason",
                "_raw as raw",
            )
        )
    (
        rows.withColumn("source_name", F.lit(feed.source))
        .withColumn("table_name", F.lit(feed.table))
        .withColumn("load_id", F.lit(plan.load_id).cast("bigint"))
        .withColumn("run_id", F.lit(run_id))
        .withColumn("at", F.current_timestamp())
        .coalesce(1)
        .write.format("delta")
        .mode("append")
        .option("txnAppId", f"tidemark/{feed.name}")
        .option("txnVersion", plan.load_id)
        .saveAsTable(ledger.DEAD_LETTER)
    )


def new_run_id() -> str:
    """TIDEMARK_RUN_ID when an orchestrator gives one, else the UTC time and the process."""
    given = os.environ.get("TIDEMARK_RUN_ID")
    return given or f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}"
