"""Landing: new files into the change logs, each file version exactly once.

A table's load is planned in the ledger first, then appended to the log under a Delta
transaction id, then marked as landed. A run that dies in between leaves its plan behind; the
next run carries it out again under the same id, which Delta applies at most once.
"""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark import csv_records, files, full_loads, ledger, macros, session
from tidemark.errors import ConfigError, SetupError
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
    feeds = list(feeds)
    # Most of a small load is waiting for one step after the other: tables go side by side.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as side_by_side:
        list(side_by_side.map(lambda feed: _create_log(spark, feed), feeds))
        work = [_plan(feed, root, book) for feed in feeds]
        new = [(landed.feed, plan) for landed, plans in work for plan in plans if plan.is_new]
        ledger.write_planned(spark, new, run_id)
        done: list[tuple[Feed, ledger.Plan, ledger.Outcome]] = []

        def carry_out(landed: Landed, plans: list[ledger.Plan]) -> None:
            for plan in plans:
                outcome = _carry_out(spark, landed.feed, root, plan, run_id)
                done.append((landed.feed, plan, outcome))
                landed.add(plan, outcome)

        started = [side_by_side.submit(carry_out, *each) for each in work if each[1]]
        try:
            for table in started:
                table.result()
        finally:
            wait(started)
            ledger.write_finished(spark, done, run_id)
    return [landed for landed, _ in work]


def _plan(feed: Feed, root: Path, book: ledger.Ledger) -> tuple[Landed, list[ledger.Plan]]:
    """What is to be landed of one table: what a run that died left behind, then new files."""
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
        reason = _refusal(feed, root, file)
        if reason:
            refused[file.path] = reason
        else:
            readable.append(file)
    outcome = ledger.Outcome(set_aside=set(refused))
    if not readable:
        _append_dead_letters(None, feed, plan, refused, run_id, spark)
        return outcome
    read = _events(spark, feed, root, readable, plan.load_id).persist()
    try:
        loads = [file for file in readable if file.kind == "load"]
        events = read
        if feed.format == "extract":
            refused |= full_loads.refused_extracts(spark, feed, read, plan.confirmed)
            outcome.set_aside |= set(refused)
            events = read.where(~F.col("_file").isin(*refused)) if refused else read
            events = full_loads.with_truncates(events, plan.confirmed)
        elif loads:
            events = full_loads.in_their_generation(spark, feed, read, loads, plan.load_id)
        outcome.count(
            events.groupBy("_file")
            .agg(
                F.expr("count_if(_reason is null) as entering"),
                F.expr("count_if(_reason is null and _position > 0) as rows"),
                F.expr("count_if(_reason is not null and _position is not null) as rejected"),
                F.expr("count_if(_position is null) as unreadable"),
            )
            .collect()
        )
        if outcome.has_rows:
            _append(events.where("_reason is null"), feed, plan)
        if outcome.has_dead_letters:
            _append_dead_letters(events, feed, plan, refused, run_id, spark)
    finally:
        read.unpersist()
    return outcome


def _refusal(feed: Feed, root: Path, file: LandedFile) -> str | None:
    if file.kind == "foreign":
        if feed.time_in_name and file.path.lower().endswith((".csv", ".csv.gz")):
            return f"the path has no time like {feed.time_in_name} (time_in_name)"
        return f"the name is none that format {feed.format} writes"
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
    too_late = _too_late(spark, feed, load_id)
    parts = [
        _read(spark, feed, root, of_kind, kind, load_id, too_late)
        for kind in ("load", "changes")
        if (of_kind := [file for file in found if file.kind == kind])
    ]
    events = parts[0]
    for part in parts[1:]:
        events = events.unionByName(part)
    return events


def _read(
    spark: SparkSession,
    feed: Feed,
    root: Path,
    found: list[LandedFile],
    kind: str,
    load_id: int,
    too_late: datetime | None,
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
    raw = F.coalesce("_raw", F.to_csv(F.struct(*[f"`{name}`" for name in layout.fields])))
    return (
        _with_conditions(records, feed)
        .join(F.broadcast(names), "_path", "left")
        .withColumn(
            "_op", F.when(F.col("_truncates"), "T").when(F.col("_deletes"), "D").otherwise(op)
        )
        .withColumn("_changed_at", F.coalesce(timestamp, "_file_at"))
        .withColumn("_is_initial", F.lit(initial))
        .withColumn("_load_id", F.lit(load_id).cast("bigint"))
        .withColumn("_landed_at", F.current_timestamp())
        .withColumn("_is_delete", F.col("_op").isin("D", "T"))
        .withColumn("_problem", F.coalesce(*_problems(feed, kind, has_op, too_late)))
        .withColumn("_raw", F.when(F.col("_position").isNotNull(), raw))
        .select(
            *[f"`{name}`" for name in feed.column_names],
            *[entry.split()[0] for entry in LOG_COLUMNS.split(", ")],
            F.col("_problem.reason").alias("_reason"),
            F.col("_problem.column").alias("_column"),
            F.col("_problem.value").alias("_value"),
            "_raw",
        )
    )


def _with_conditions(records: DataFrame, feed: Feed) -> DataFrame:
    """The records with `_deletes` and `_truncates`: the declared conditions on the typed columns.

    Raises ConfigError when a condition is not SQL that Spark understands.
    """
    conditions = {"_deletes": feed.delete_when, "_truncates": feed.truncate_when}
    if not any(conditions.values()):
        return records.withColumns({name: F.lit(False) for name in conditions})
    names = feed.column_names
    others = [f"`{name}`" for name in records.columns if name not in names]
    found = records.select(
        *others,
        F.struct(*[f"`{name}`" for name in names]).alias("_texts"),
        *[F.expr(macros.cast_text(f"`{c.name}`", c.type)).alias(c.name) for c in feed.columns],
    )
    for name, condition in conditions.items():
        try:
            holds = F.expr(f"coalesce({condition}, false)") if condition else F.lit(False)
            found = found.withColumn(name, holds)
        except AnalysisException as error:
            raise ConfigError(
                f"{feed.declared_in}, {feed.name}: {name[1:-1]}_when '{condition}' is no condition "
                f"on the columns {', '.join(names)}: {session.readable(error)}"
            ) from error
    return found.select(*others, *conditions, "_texts.*")


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


def _problems(feed: Feed, kind: str, has_op: bool, too_late: datetime | None) -> list[SparkColumn]:
    """What can be wrong with a record, in the order in which it is told."""
    nothing = F.lit(None)
    problems = [_problem(F.col("_reason").isNotNull(), None, nothing, F.col("_reason"))]
    if has_op:
        op, allowed = F.col("Op"), OPERATIONS if kind == "changes" else LOAD_OPERATIONS
        unknown = F.lit(f"unknown operation: one of {', '.join(allowed)} was expected")
        is_unknown = (op.isNull() | ~op.isin(*allowed)) & ~F.col("_deletes") & ~F.col("_truncates")
        problems.append(_problem(is_unknown, "Op", op, unknown))
    for name in (*feed.key, *(feed.sequence if kind == "changes" else ())):
        what = "key" if name in feed.key else "sequence"
        lacks = F.col(f"`{name}`").isNull()
        # A truncate is of no key.
        lacks = lacks & ~F.col("_truncates") if what == "key" else lacks
        problems.append(_problem(lacks, name, nothing, F.lit(f"{what} column is NULL")))
    if feed.format == "dms" and feed.timestamp_column:
        text = F.col(f"`{feed.timestamp_column}`")
        fits = F.expr(macros.cast_text(f"`{feed.timestamp_column}`", "timestamp")).isNotNull()
        reason = F.lit("not a timestamp")
        problems.append(_problem(text.isNull() | ~fits, feed.timestamp_column, text, reason))
    is_update = F.coalesce(F.col("_op") == "U", F.lit(False))
    for declared in feed.columns:
        text = F.col(f"`{declared.name}`")
        fits = F.expr(macros.cast_text(f"`{declared.name}`", declared.type)).isNotNull()
        wrong = text.isNotNull() & ~fits
        # A delete may carry only its key: its other columns are never read.
        if declared.name not in (*feed.key, *feed.sequence):
            wrong = wrong & ~F.coalesce(F.col("_is_delete"), F.lit(False))
            if feed.unavailable_value:
                wrong = wrong & ~(is_update & (text == feed.unavailable_value))
        problems.append(_problem(wrong, declared.name, text, F.lit(f"not a {declared.type}")))
    if feed.changed_columns:
        listed = macros.names_in_list(f"`{feed.changed_columns}`")
        names = ", ".join(f"'{name.lower()}'" for name in feed.column_names)
        unknown = F.expr(f"coalesce(size(array_except({listed}, array({names}))) > 0, false)")
        reason = F.lit("names a column that is not declared")
        text = F.col(f"`{feed.changed_columns}`")
        problems.append(_problem(is_update & unknown, feed.changed_columns, text, reason))
    if too_late:
        is_late = (F.col("_changed_at") < F.lit(too_late)) & F.lit(kind == "changes")
        reason = F.lit(
            f"changed more than {feed.lateness} before the newest change known (lateness)"
        )
        changed_at = F.col("_changed_at").cast("string")
        problems.append(_problem(is_late, feed.timestamp_column, changed_at, reason))
    return problems


def _too_late(spark: SparkSession, feed: Feed, load_id: int) -> datetime | None:
    """Changes from before this time are refused; None when the feed takes every late change."""
    if not feed.lateness:
        return None
    row = spark.sql(
        f"select unix_micros(max(_changed_at) - interval {feed.lateness}) as at "
        f"from `{feed.schema}`.`{feed.table}` where not _is_initial and _load_id < {load_id}"
    ).collect()[0]
    return None if row["at"] is None else files.EPOCH + timedelta(microseconds=row["at"])


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
