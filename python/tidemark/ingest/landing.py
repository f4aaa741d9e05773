"""Landing: new files into the change logs, each file version exactly once.

A table's load is planned in the ledger first, then appended to the log, then marked as landed. A
run that dies in between leaves a load that never came to its end. The next run plans its files
anew, as they and their declaration are then, and leaves out the rows that the log has already.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark import readers
from tidemark.errors import ConfigError, TidemarkError, printable
from tidemark.feeds import Feed
from tidemark.ingest import (
    books,
    files,
    full_loads,
    ledger,
    log,
    macros,
    planning,
    positions,
    problems,
    producers,
)
from tidemark.ingest.file_names import is_load
from tidemark.ingest.files import LandedFile
from tidemark.ingest.landed import Landed
from tidemark.spark import machine, session
from tidemark.storage import LandingFolder, micros

# Files of more bytes that come through Spark come by lines, so that neither Java nor Python must
# hold one as a whole.
LARGE = 64 << 20
# A local file of more bytes than this is read by all cores side by side, where it has parts.
IN_PARTS = 8 << 20
# With so many bytes together, lines may be long: fewer go to a Python worker at once.
_MUCH = 16 << 20
_FOR_MUCH = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1000"}
_PACKED = (".gz", ".bz2", ".deflate", ".lz4", ".snappy", ".zst")


class TableFailedError(TidemarkError):
    """A table's files cannot be landed; nothing of them did."""


def land(
    spark: SparkSession,
    feeds: Iterable[Feed],
    root: LandingFolder,
    *,
    run_id: str,
    progress: Callable[[int, int], None] = lambda done, planned: None,
    retracts: bool = False,
) -> list[Landed]:
    """Land every new file of the feeds; gives one entry for each feed.

    `progress` is told how many of how many files are done. A table that fails has a `failure`,
    and the next run tries it again; the others land. With `retracts` the rows of files that are
    to be taken back are deleted; it is for who derives their tables anew. Otherwise such a table
    fails. Raises SetupError when the landing folder itself is missing.
    """
    root.require()
    own = books.of(spark)
    own.create()
    feeds = list(feeds)
    # Most of a small load is waiting for one step after the other: tables go side by side.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as side_by_side:
        without_log = _make_logs_ready(spark, own, feeds, side_by_side)
        found = list(side_by_side.map(lambda feed: planning.listed(root, feed, own), feeds))
        work, book = planning.plan(own, feeds, found)
        for landed, _ in work:
            landed.failure = landed.failure or without_log.get(landed.feed.name, "")
            for load_id, file in book.retracting(landed.feed):
                landed.retracted.append((load_id, file))
                if retracts:
                    _take_back(spark, landed.feed, load_id, file)
                else:
                    landed.failure = (
                        f"{file.path} is to be taken back, and its tables are to be derived "
                        "without it: `tidemark run` does both"
                    )
        todo = [(landed, planned) for landed, planned in work if planned and not landed.failure]
        ledger.write_planned(own, [(landed.feed, planned) for landed, planned in todo], run_id)
        sizes = [file.size for _, planned in todo for file in planned.files]
        done: list[tuple[Feed, ledger.Plan, ledger.Outcome]] = []

        def carry_out(landed: Landed, plan: ledger.Plan) -> None:
            started_at = time.monotonic()
            try:
                newest = book.newest_changes.get(landed.feed.name)
                outcome = _carry_out(spark, landed.feed, root, plan, run_id, newest)
                done.append((landed.feed, plan, outcome))
                landed.add(plan, outcome)
                progress(sum(len(plan.files) for _, plan, _ in done), len(sizes))
            except Exception as error:  # one table's trouble is not the others'
                landed.failure = session.readable(error)
            landed.seconds = time.monotonic() - started_at

        suited = session.suited_to(sum(sizes)) | (_FOR_MUCH if sum(sizes) > _MUCH else {})
        with session.settings_during(spark, suited):
            started = [side_by_side.submit(carry_out, *each) for each in todo]
            try:
                for table in started:
                    table.result()
            finally:
                wait(started)
                for feed, carried_out, _ in done:
                    ledger.supersede(spark, feed, carried_out)
                ledger.write_finished(own, done, run_id)
    ledger.write_run(own, [landed.as_run() for landed, _ in work if landed.is_new], run_id)
    return [landed for landed, _ in work]


def _make_logs_ready(
    spark: SparkSession, own: books.Books, feeds: Iterable[Feed], side_by_side: ThreadPoolExecutor
) -> dict[str, str]:
    """Create the logs, and columns of theirs, that are missing; gives the failures, by table."""
    failures: dict[str, str] = {}
    missing: set[str] = set()
    for schema in sorted({feed.schema for feed in feeds}):
        of_schema = [feed for feed in feeds if feed.schema == schema]
        try:
            missing |= {feed.name for feed in log.missing(spark, of_schema)}
        except Exception as error:  # one schema's trouble is not the others'
            failures.update({feed.name: session.readable(error) for feed in of_schema})

    def make_ready(feed: Feed) -> None:
        try:
            if feed.name not in failures:
                log.make_ready(spark, own, feed, is_missing=feed.name in missing)
        except Exception as error:  # nor one table's
            failures[feed.name] = session.readable(error)

    list(side_by_side.map(make_ready, feeds))
    return failures


def _carry_out(
    spark: SparkSession,
    declared: Feed,
    root: LandingFolder,
    plan: ledger.Plan,
    run_id: str,
    newest_known: datetime | None,
) -> ledger.Outcome:
    """Land the plan's files under its load id."""
    feed = log.with_known_columns(spark, declared)
    outcome = ledger.Outcome()
    if plan.has_unfinished:
        outcome.found = _found_of_died(spark, feed, plan)
        have_landed = {path for _, path in outcome.found}
        plan = replace(plan, gone=plan.gone - have_landed)
    refused = {file.path: reason for file in plan.files if (reason := _refusal(feed, file, plan))}
    readable = [file for file in plan.files if file.path not in refused]
    outcome.set_aside |= refused
    if not readable:
        if refused:
            _append_dead_letters(None, feed, plan, refused, run_id, spark)
        return outcome
    read = _events(spark, feed, root, readable, plan).persist()
    try:
        if _is_broken_in_part(root, feed, readable, read):
            read.unpersist()
            read = _events(spark, feed, root, readable, plan, in_parts=False).persist()
        strictly = _refused_for_bad_records(feed, read)
        strictly |= full_loads.refused_with_others(feed, readable, {**refused, **strictly})
        refused |= strictly
        events = read.where(~F.col("_file").isin(*strictly)) if strictly else read
        broken: dict[str, str] = {}
        if feed.is_full_extract:
            broken = full_loads.refused_extracts(spark, feed, events, plan)
        elif feed.is_placed:
            broken = positions.refused(spark, feed, events, plan)
        elif feed.format == "dms" and sum(file.kind == "changes" for file in readable) > 2:
            broken = producers.refused(events, plan.confirmed | plan.landed_before)
        if broken:
            events = events.where(~F.col("_file").isin(*broken))
            refused |= broken
        if feed.is_full_extract:
            events = full_loads.with_truncates(feed, events, plan.confirmed)
        elif feed.format == "dms":
            loads = [file for file in readable if file.kind == "load" and file.path not in refused]
            if loads:
                is_whole = not any(is_load(path) for path in refused)
                events = full_loads.in_their_generation(
                    spark, feed, events, loads, plan, is_whole=is_whole, notes=outcome.notes
                )
        events = _not_landed_before(spark, feed, events, plan)
        outcome.count(_counts(feed, events, newest_known))
        if outcome.has_rows and outcome.oldest_change:
            is_in_order = newest_known is None or outcome.oldest_change > newest_known
            outcome.copies = _copies(spark, feed, events, plan, is_in_order)
        outcome.set_aside |= refused
        if outcome.has_rows:
            outcome.new_columns = log.add_columns(spark, feed, outcome.other_columns)
            log.append(feed, events.where(_IS_GOOD), plan, outcome.new_columns)
            log.require_rows(spark, feed, plan, outcome.entering)
        if outcome.has_dead_letters:
            letters = events
            if strictly:
                of_strict = read.where(F.col("_file").isin(*strictly))
                letters = events.unionByName(of_strict, allowMissingColumns=True)
            _append_dead_letters(letters, feed, plan, refused, run_id, spark)
    finally:
        read.unpersist()
    return outcome


def _take_back(spark: SparkSession, feed: Feed, load_id: int, file: LandedFile) -> None:
    """Delete a file's rows from the log; what it had in the dead letter counts no longer."""
    path = session.literal(file.path)
    begins = f"_op = 'T' and _position = 0 and _file = {path}"
    of_file = f"_file = {path}"
    if feed.extract_is == "folder":
        # The rest of the extract does not stand for the whole.
        of_file += f" or _file = {session.literal(file.path.rpartition('/')[0])}"
    others = spark.table(feed.log).where(f"_op = 'R' and _file <> {path}").select("_file_at")
    begun = spark.table(feed.log).where(begins).select("_file_at")
    if feed.format == "dms" and others.join(begun, "_file_at", "left_semi").take(1):
        # Other files of the reload that it begins are there.
        of_file += f" and not ({begins})"
    spark.sql(f"delete from {feed.log} where {of_file}")
    spark.sql(
        f"update {books.DEAD_LETTER} set superseded_by = {load_id} "
        f"where source_name = '{feed.source}' and table_name = '{feed.table}' "
        f"and file = {path} and superseded_by is null"
    )


def _found_of_died(
    spark: SparkSession, feed: Feed, plan: ledger.Plan
) -> dict[tuple[int, str], int]:
    """The rows that loads which never came to their end have in the log, by load and file.

    What they refused is forgotten: their files are read anew.
    """
    spark.sql(
        f"delete from {books.DEAD_LETTER} where source_name = '{feed.source}' "
        f"and table_name = '{feed.table}' and load_id > {plan.settled}"
    )
    counted = (
        spark.table(feed.log)
        .where(f"_load_id > {plan.settled}")
        .groupBy("_load_id", "_file")
        .agg(F.expr("count_if(_position > 0)").alias("rows"))
        .collect()
    )
    return {(row["_load_id"], row["_file"]): row["rows"] for row in counted}


_IS_GOOD = "_reason is null and _skipped is null"


def _counts(feed: Feed, events: DataFrame, newest_known: datetime | None) -> list[Row]:
    """What becomes of each file's records."""
    is_record = f"{_IS_GOOD} and _position > 0"
    is_late = F.lit(False) if newest_known is None else F.col("_changed_at") < F.lit(newest_known)
    if feed.is_full_extract:
        is_late = F.lit(False)
    return (
        events.withColumn("_is_late", is_late & ~F.col("_is_initial"))
        .groupBy("_file")
        .agg(
            F.expr(f"count_if({_IS_GOOD}) as entering"),
            F.expr(f"count_if({is_record}) as rows"),
            F.expr("count_if(_reason is not null and _position is not null) as rejected"),
            F.expr("count_if(_skipped is not null and _reason is null) as skipped"),
            F.expr(f"count_if({is_record} and _op in ('R', 'I')) as inserted"),
            F.expr(f"count_if({is_record} and _op = 'U') as updated"),
            F.expr(f"count_if({is_record} and _op = 'D') as deleted"),
            F.expr(f"count_if({is_record} and _is_late) as late"),
            F.expr(f"unix_micros(min(if({is_record}, _changed_at, null))) as oldest"),
            F.expr(f"unix_micros(max(if({is_record}, _changed_at, null))) as newest"),
            F.expr("first(if(_position is null, _reason, null), true) as unreadable"),
            F.expr(f"flatten(collect_set(if({_IS_GOOD}, map_keys(_others), null))) as others"),
        )
        .collect()
    )


def _copies(
    spark: SparkSession, feed: Feed, events: DataFrame, plan: ledger.Plan, is_in_order: bool
) -> int:
    """How many changes are copies (rule 3), of this load or of one before it.

    A copy has the time of what it copies, so a load that is newer than all before has none of
    theirs. Without a sequence a change has its place for one: there are no copies.
    """
    if not feed.sequence or feed.is_full_extract:
        return 0
    # A hash passes over NULLs, wherever they stand.
    columns = ", ".join(f"`{name}`, isnull(`{name}`)" for name in feed.column_names)
    content = f"xxhash64(_op, _sequence, {columns}) as content"
    new = events.where(f"{_IS_GOOD} and _position > 0").selectExpr(content, "_changed_at")
    counted = new.selectExpr(
        "count(*) as rows",
        "count(distinct content) as contents",
        "min(_changed_at) as first",
        "max(_changed_at) as last",
    ).collect()[0]
    copies = counted.rows - counted.contents
    if not is_in_order and counted.rows:
        known = spark.table(feed.log).where(
            F.expr(plan.is_known)
            & F.col("_changed_at").between(F.lit(counted.first), F.lit(counted.last))
        )
        copies += (
            new.select("content")
            .distinct()
            .join(known.selectExpr(content).distinct(), "content", "left_semi")
            .count()
        )
    return int(copies)


def _refused_for_bad_records(feed: Feed, read: DataFrame) -> dict[str, str]:
    """Why files are refused whole by a feed that is strict.

    Raises TableFailedError when more than `max_rejected_share` of all records are bad.
    """
    if not feed.strict and feed.max_rejected_share >= 1:
        return {}
    records = read.where("_position is not null and _skipped is null")
    counted = (
        records.groupBy("_file")
        .agg(F.count("*").alias("records"), F.count("_reason").alias("bad"))
        .collect()
    )
    bad, total = sum(row.bad for row in counted), sum(row.records for row in counted)
    if bad > feed.max_rejected_share * total:
        some = records.where("_reason is not null").limit(3).collect()
        told = "; ".join(
            printable(f"{row._file}, record {row._position}: {row._reason}") for row in some
        )
        raise TableFailedError(
            f"{bad} of {total} records are bad, which is more than "
            f"max_rejected_share {feed.max_rejected_share:g}: nothing of them landed. "
            f"Such as {told}"
        )
    return {
        row["_file"]: f"{row.bad} of its {row.records} records are bad, and the feed is strict"
        for row in counted
        if feed.strict and row.bad
    }


def _not_landed_before(
    spark: SparkSession, feed: Feed, events: DataFrame, plan: ledger.Plan
) -> DataFrame:
    """Without the rows that the log has from an earlier reading of the same files.

    Either the same file versions were read before (tidemark replay), or a run died behind its
    append; what is in the log of that one may be of another version of a file.
    """
    place = ["_file", "_position", "_op"]
    if plan.has_unfinished:
        same = [*place, *feed.column_names]
        appended = (
            spark.table(feed.log)
            .where(f"_load_id > {plan.settled}")
            .selectExpr(*[f"`{name}` as `{name} there`" for name in same])
        )
        is_same = " and ".join(f"`{name}` <=> `{name} there`" for name in same)
        events = events.join(appended, F.expr(is_same), "left_anti")
    if not plan.earlier_loads:
        return events
    known = (
        spark.table(feed.log)
        .where(F.col("_load_id").isin(*plan.earlier_loads))
        .where(F.col("_file").isin(*plan.read_before))
        .select(*place)
        .distinct()
    )
    return events.join(known, place, "left_anti")


def _refusal(feed: Feed, file: LandedFile, plan: ledger.Plan) -> str | None:
    if file.path in plan.gone:
        return readers.VANISHED
    if file.kind == "misnamed":
        return f"the name {file.path} is not UTF-8: rename the file, and the next run takes it"
    if file.kind == "foreign":
        if feed.time_in_name and readers.type_of_file(file.path):
            return f"the path has no time like {feed.time_in_name} (time_in_name)"
        return f"the name is none that format {feed.format} writes"
    if feed.ahead and file.path not in plan.confirmed and file.time > _latest(feed.ahead):
        return (
            f"its time {file.time:%Y-%m-%d %H:%M:%S} is more than {feed.ahead} ahead (ahead); if "
            f"it is right: tidemark confirm {file.path}"
        )
    # Spark passes over such a file without a word.
    return readers.NO_BYTES if file.size == 0 else plan.left_over.get(file.path)


def _latest(ahead: str) -> datetime:
    count, unit = ahead.split()
    return datetime.now(UTC) + timedelta(**{f"{unit.removesuffix('s')}s": int(count)})


def _events(
    spark: SparkSession,
    feed: Feed,
    root: LandingFolder,
    found: list[LandedFile],
    plan: ledger.Plan,
    *,
    in_parts: bool = True,
) -> DataFrame:
    """The log's rows, and `_reason`, `_column`, `_value`, `_raw` of those that must not enter."""
    too_late = _too_late(spark, feed, plan)
    parts = [
        _read(spark, feed, root, of_kind, kind, plan.load_id, too_late, in_parts=in_parts)
        for kind in ("load", "changes")
        if (of_kind := [file for file in found if file.kind == kind])
    ]
    return _union(parts)


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    found = parts[0]
    for part in parts[1:]:
        found = found.unionByName(part)
    return found


def _records(
    spark: SparkSession,
    feed: Feed,
    root: LandingFolder,
    found: Sequence[LandedFile],
    kind: str,
    *,
    in_parts: bool,
) -> DataFrame:
    """The files' records, as `readers.schema` has them."""
    parts = [(file, _parts_of(file, feed, root) if in_parts else 1) for file in found]
    at_hand = [
        (
            *(file.path, file.time, file.modified, root.place(file.path)),
            *(file.size, micros(file.modified), part, count),
        )
        for file, count in parts
        for part in range(count)
    ]
    if at_hand and at_hand[0][3] is not None:
        # A partition takes the rows in order: large parts go to different ones.
        at_hand.sort(key=lambda row: -row[4] // row[7])
        tasks = machine.cores()
        dealt = [row for task in range(tasks) for row in at_hand[task::tasks]]
        local = spark.createDataFrame(dealt, readers.LOCAL_FILE)
        return local.mapInArrow(readers.local_reader(feed, kind), readers.schema(feed))
    read = readers.reader(feed, kind)
    contents = _contents(spark, root, found)
    return _union([part.mapInArrow(read, readers.schema(feed)) for part in contents])


def _parts_of(file: LandedFile, feed: Feed, root: LandingFolder) -> int:
    is_split = file.size > IN_PARTS and readers.has_parts(file.path, feed)
    return machine.cores() if is_split and root.place(file.path) else 1


def _is_broken_in_part(
    root: LandingFolder, feed: Feed, found: Sequence[LandedFile], read: DataFrame
) -> bool:
    """Whether a part of a file cannot be taken: its other parts are to know."""
    paths = [file.path for file in found if _parts_of(file, feed, root) > 1]
    if not paths:
        return False
    return bool(read.where(F.col("_position").isNull() & F.col("_file").isin(paths)).count())


def _contents(
    spark: SparkSession, root: LandingFolder, found: Sequence[LandedFile]
) -> list[DataFrame]:
    """What `readers.reader` reads: path, times and content of the files, large ones by lines.

    A file that is no longer the version that was planned has no content.
    """
    columns = ["path", "file_at", "written_at", "content", "size"]
    large = [file for file in found if _is_large(file)]
    small = [file for file in found if not _is_large(file)]
    parts = []
    if small:
        whole = root.contents(spark, [file.path for file in small])
        whole = whole.withColumn("size", F.lit(None).cast("bigint"))
        parts.append(_as_planned(spark, root, whole, small).select(*columns))
    if large:
        lines = root.lines(spark, [file.path for file in large]).withColumn("size", F.col("length"))
        lines = _as_planned(spark, root, lines, large)
        # A file's lines go to one Python worker, in order.
        lines = lines.repartition("path").sortWithinPartitions("path", "_block", "_line")
        parts.append(lines.select(*columns))
    return parts


def _is_large(file: LandedFile) -> bool:
    """Whether the file comes by lines. Spark would unpack one with such a name."""
    return file.size > LARGE and not file.path.lower().endswith(_PACKED)


def _as_planned(
    spark: SparkSession, root: LandingFolder, there: DataFrame, found: Sequence[LandedFile]
) -> DataFrame:
    planned = spark.createDataFrame(
        [
            (f"{root.root}/{file.path}", file.path, file.time, file.size, file.modified)
            for file in found
        ],
        "_at string, path string, file_at timestamp, _size bigint, written_at timestamp",
    )
    # Hadoop knows milliseconds.
    is_planned = (F.col("length") == F.col("_size")) & (
        F.date_trunc("millisecond", "modificationTime") == F.date_trunc("millisecond", "written_at")
    )
    return there.join(F.broadcast(planned), "_at").withColumn(
        "content", F.when(is_planned, F.col("content"))
    )


def _read(
    spark: SparkSession,
    feed: Feed,
    root: LandingFolder,
    found: list[LandedFile],
    kind: str,
    load_id: int,
    too_late: datetime | None,
    *,
    in_parts: bool,
) -> DataFrame:
    records = _records(spark, feed, root, found, kind, in_parts=in_parts)
    is_load = feed.format == "dms" and kind == "load"
    time_of_change = F.col("_source_time")
    if feed.timestamp_column in feed.column_names:
        time_of_change = F.col(f"`{feed.timestamp_column}`")
    records = records.withColumn("_source_time", time_of_change).withColumn(
        "_told_at", F.expr(macros.cast_text("_source_time", "timestamp"))
    )
    is_initial = F.lit(is_load) if feed.format != "debezium" else F.col("_is_snapshot")
    # The place in Kafka, which orders Debezium's files, is no time.
    file_time = "_written_at" if feed.format == "debezium" else "_file_at"
    changed_at = F.coalesce("_told_at", file_time)
    if feed.loaded_at:
        loaded_at = F.lit(feed.loaded_at).cast("timestamp")
        is_of_then = is_initial
        if feed.format == "debezium" and feed.epochs:
            # A snapshot that was taken since then stands in its epoch.
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
        .withColumn("_load_id", F.lit(load_id).cast("bigint"))
        .withColumn("_landed_at", F.current_timestamp())
        .withColumn("_is_delete", F.coalesce(F.col("_op").isin("D", "T"), F.lit(False)))
        .withColumn("_problem", F.coalesce(*problems.of(feed, kind, too_late)))
        .withColumn("_raw", F.when(F.col("_position").isNotNull(), _raw(feed, kind)))
        .select(
            *columns,
            *log.COLUMNS,
            "_told_at",
            "_file_columns",
            "_others",
            "_skipped",
            F.when(F.col("_skipped").isNull(), F.col("_problem.reason")).alias("_reason"),
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
    told = F.col("_source_op")
    for text, meant in feed.operations:
        is_it = F.coalesce(F.col("_source_op"), F.lit("")) == text
        told = F.when(is_it, F.lit(meant)).otherwise(told)
    if feed.is_full_extract or (feed.format == "dms" and kind == "load"):
        op = F.lit("R")
    elif feed.needs_op(kind) or feed.format == "debezium":
        op = told
    else:
        op = F.coalesce(told, F.lit("U"))
    skipped = F.when(told == "skip", F.lit("operation")).otherwise(F.col("_skipped"))
    return records.withColumns({"_told": told, "_op": op, "_skipped": skipped})


def _with_conditions(records: DataFrame, feed: Feed) -> DataFrame:
    """The records with what the declared conditions on the typed columns say of them.

    `_deletes` and `_truncates` are true or false, `_failed` is the name of the first of the
    feed's `checks` that is false. Raises ConfigError when a condition is not SQL that Spark
    understands.
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
            # As in a CHECK of SQL, what is unknown passes.
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
    """The typed columns of records, NULL where an update leaves them out: a check passes them."""
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


def _too_late(spark: SparkSession, feed: Feed, plan: ledger.Plan) -> datetime | None:
    """Changes from before this time are refused; None when the feed takes every late change."""
    if not feed.lateness:
        return None
    row = spark.sql(
        f"select unix_micros(max(_changed_at) - interval {feed.lateness}) as at "
        f"from {feed.log} where not _is_initial and {plan.is_known}"
    ).collect()[0]
    return None if row["at"] is None else files.EPOCH + timedelta(microseconds=row["at"])


def _append_dead_letters(
    events: DataFrame | None,
    feed: Feed,
    plan: ledger.Plan,
    refused: dict[str, str],
    run_id: str,
    spark: SparkSession,
) -> None:
    whole = [
        (path, None, None, getattr(reason, "value", None), str(reason), None)
        for path, reason in refused.items()
    ]
    rows = spark.createDataFrame(whole, books.DEAD_LETTER_ROW)
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
        .option("txnAppId", books.transaction(feed))
        .option("txnVersion", plan.load_id)
        .saveAsTable(books.DEAD_LETTER)
    )
