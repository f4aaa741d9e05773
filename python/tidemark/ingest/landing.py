"""Landing: new files into the change logs, each file version exactly once.

Landing writes a table's load to the ledger as planned, appends it to the log, and marks it as
landed. A run that dies in between leaves an unfinished load. The next run plans its files again,
with their content and declaration at that time, and leaves out the rows that are in the log.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark import formats, readers
from tidemark.errors import TidemarkError, printable
from tidemark.feeds import Feed
from tidemark.ingest import (
    books,
    cuts,
    direct,
    erased,
    events,
    full_loads,
    ledger,
    log,
    planning,
    positions,
    producers,
    reading,
    tombstones,
)
from tidemark.ingest.file_names import is_load
from tidemark.ingest.files import LandedFile
from tidemark.ingest.landed import Landed, Outcome
from tidemark.ingest.load import Load
from tidemark.reasons import Reason, Why
from tidemark.spark import session
from tidemark.spark.machine import cores
from tidemark.storage import LandingFolder

# A way to land a load: it gives None if it did nothing.
Step = Callable[[books.Books, Load], Outcome | None]


class TableFailedError(TidemarkError):
    """None of a table's files can land."""


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

    Calls `progress` with the numbers of files that are done and planned. A table that fails has a
    `failure`, and the next run tries it again; the others land. `retracts` deletes the rows of
    retracted files, for a caller that rebuilds their tables; without it such a table fails. Raises
    SetupError when the landing folder is missing.
    """
    root.require()
    own = books.of(spark)
    own.create()
    feeds = list(feeds)
    # A small load mostly waits, so tables land side by side.
    with ThreadPoolExecutor(max_workers=cores()) as side_by_side:
        without_log = _make_logs_ready(spark, own, feeds, side_by_side)
        found = list(side_by_side.map(lambda feed: planning.listed(root, feed, own), feeds))
        work, book = planning.plan(own, feeds, found)
        for landed in work:
            landed.failure = landed.failure or without_log.get(landed.feed.name, "")
            if landed.failure:
                continue
            landed.retracted = book.retracting(landed.feed)
            for load_id, file in landed.retracted:
                try:
                    if retracts:
                        _take_back(spark, landed.feed, load_id, file)
                    else:
                        landed.failure = str(Why.TO_BE_RETRACTED(file=file.path))
                except Exception as error:  # the other tables land
                    landed.failure = session.readable(error)
        todo = [(each, each.plan) for each in work if each.plan and not each.failure]
        planned = [(each.feed, plan.load_id, file) for each, plan in todo for file in plan.files]
        ledger.write(own, planned, "planned", run_id)
        sizes = [sum(file.size for file in plan.files) for _, plan in todo]
        files = sum(len(plan.files) for _, plan in todo)
        with_tombstones = tombstones.subjects(own) if todo else frozenset[str]()

        def load_of(landed: Landed, plan: ledger.Plan) -> Load:
            newest = book.newest_changes.get(landed.feed.name)
            cut = log.cut_of(own, landed.feed)
            return Load(spark, landed.feed, root, plan, run_id, newest, with_tombstones, cut)

        def carry_out(step: Step, landed: Landed, plan: ledger.Plan) -> None:
            started_at = time.monotonic()
            try:
                landed.outcome = step(own, load_of(landed, plan))
                if landed.outcome:
                    landed.notes += landed.outcome.notes
                    done = sum(len(plan.files) for landed, plan in todo if landed.outcome)
                    progress(done, files)
            except Exception as error:  # the other tables land
                landed.failure = session.readable(error)
            landed.seconds += time.monotonic() - started_at

        def carry_out_all(step: Step) -> None:
            left = [each for each in todo if not (each[0].outcome or each[0].failure)]
            started = [side_by_side.submit(carry_out, step, *each) for each in left]
            try:
                for table in started:
                    table.result()
            finally:
                wait(started)

        suited = session.suited_to(sizes, run_id) | reading.settings_for(sum(sizes))
        try:
            # Spark may still be starting.
            carry_out_all(_without_spark)
            if any(not (landed.outcome or landed.failure) for landed, _ in todo):
                with session.settings_during(spark, suited):
                    carry_out_all(_by_spark)
        finally:
            for landed, plan in todo:
                if landed.outcome:
                    ledger.supersede(spark, own, landed.feed, plan, run_id)
            ledger.write_finished(own, work, run_id)
    ledger.write_run(own, [landed.as_run() for landed in work if landed.is_new], run_id)
    return work


def _make_logs_ready(
    spark: SparkSession, own: books.Books, feeds: Iterable[Feed], side_by_side: ThreadPoolExecutor
) -> dict[str, str]:
    """Create missing logs, and missing columns of logs; gives the failures, by table."""
    failures: dict[str, str] = {}
    missing: set[str] = set()
    unknown = [feed for feed in feeds if not own.is_in_use(feed.log)]
    for schema in sorted({feed.schema for feed in unknown}):
        of_schema = [feed for feed in unknown if feed.schema == schema]
        try:
            missing |= {feed.name for feed in log.missing(spark, of_schema)}
        except Exception as error:  # the other schemas are fine
            failures.update({feed.name: session.readable(error) for feed in of_schema})

    def make_ready(feed: Feed) -> None:
        try:
            if feed.name not in failures:
                log.make_ready(spark, own, feed, is_missing=feed.name in missing)
        except Exception as error:  # so are the other tables
            failures[feed.name] = session.readable(error)

    list(side_by_side.map(make_ready, feeds))
    return failures


def _without_spark(own: books.Books, load: Load) -> Outcome | None:
    """Land the plan's files if nothing about them needs Spark, else do nothing."""
    load = replace(load, feed=log.with_known_columns(own, load.feed))
    if load.plan.has_unfinished or any(_refusal(load, file) for file in load.plan.files):
        return None
    return direct.land(load)


def _by_spark(own: books.Books, load: Load) -> Outcome:
    """Land the plan's files under its load id."""
    load = replace(load, feed=log.with_known_columns(own, load.feed))
    outcome = Outcome()
    if load.plan.has_unfinished:
        outcome.found = _found_of_died(load)
        have_landed = {path for _, path in outcome.found}
        load = replace(load, plan=replace(load.plan, gone=load.plan.gone - have_landed))
    refused = {file.path: why for file in load.plan.files if (why := _refusal(load, file))}
    readable = [file for file in load.plan.files if file.path not in refused]
    outcome.set_aside |= _sentences(refused)
    if readable:
        read = events.of(load, readable).persist()
        try:
            if reading.is_broken_in_part(load, readable, read):
                read.unpersist()
                read = events.of(load, readable, in_parts=False).persist()
            with cuts.refused(load, read) as possible:
                _land_read(load, readable, possible, refused, outcome)
        finally:
            read.unpersist()
    elif refused:
        _append_dead_letters(load, refused)
    return outcome


def _land_read(
    load: Load,
    files: Sequence[LandedFile],
    read: DataFrame,
    refused: Mapping[str, Reason],
    outcome: Outcome,
) -> None:
    """Land the events of files, and refuse what cannot land, after what was `refused` unread."""
    strictly = _refused_for_bad_records(load.feed, read)
    strictly |= full_loads.refused_with_others(load.feed, files, {**refused, **strictly})
    good = _without(read, strictly)
    together, remarks = _refused_together(load, files, good)
    refused = {**refused, **strictly, **together}
    good = _without(good, together)
    if load.feed.is_full_extract:
        good = full_loads.with_truncates(load, good)
    elif load.feed.format == "dms":
        loads = [file for file in files if file.kind == "load" and file.path not in refused]
        if loads:
            is_whole = not any(is_load(path) for path in refused)
            good, questions = full_loads.in_their_generation(load, good, loads, is_whole=is_whole)
            outcome.notes += questions
    good = _not_landed_before(load, good)
    counts = _counts(load, good)
    outcome.count(counts)
    outcome.notes += _of_erased(counts)
    if not outcome.total("rejected"):
        outcome.notes += remarks
    outcome.set_aside |= _sentences(refused)
    if outcome.has_rows:
        changes = good.where(f"{events.IS_GOOD} and _position > 0")
        outcome.copies = log.copies(load, changes, outcome.oldest_change)
        outcome.new_columns = log.add_columns(load, outcome.other_columns)
        log.append(load, good.where(events.IS_GOOD), outcome.new_columns)
        log.require_rows(load, outcome.entering)
    if outcome.has_dead_letters:
        letters = good
        if strictly:
            of_strict = read.where(F.col("_file").isin(*strictly))
            letters = good.unionByName(of_strict, allowMissingColumns=True)
        _append_dead_letters(load, refused, letters)


def _of_erased(counts: Iterable[Row]) -> list[Reason]:
    """A remark about files that have records of erased subjects."""
    found = {row["_file"]: row["erased"] for row in counts if row["erased"]}
    if not found:
        return []
    return [Why.OF_ERASED(count=sum(found.values()), files=", ".join(sorted(found)))]


def _sentences(refused: Mapping[str, Reason]) -> dict[str, str]:
    return {path: str(reason) for path, reason in refused.items()}


def _without(found: DataFrame, paths: Collection[str]) -> DataFrame:
    return found.where(~F.col("_file").isin(*paths)) if paths else found


def _refused_together(
    load: Load, files: Sequence[LandedFile], found: DataFrame
) -> tuple[Mapping[str, Reason], list[Reason]]:
    """The files that are readable, but contradict each other or the log, and why; and remarks."""
    feed, plan = load.feed, load.plan
    if feed.is_full_extract:
        return full_loads.refused_extracts(load, found)
    if feed.is_placed:
        return positions.refused(load, found), []
    if feed.format == "dms" and sum(file.kind == "changes" for file in files) > 2:
        told = producers.names_told(found)
        refused = producers.refused(told, plan.confirmed | plan.landed_before)
        if refused and not producers.is_one_that_repeats(told, found):
            return refused, []
    return {}, []


def _take_back(spark: SparkSession, feed: Feed, load_id: int, file: LandedFile) -> None:
    """Delete a file's rows from the log, and close its dead letters."""
    path = books.literal(file.path)
    column = formats.of_lake().file_column
    begins = f"_op = 'T' and _position = 0 and {column} = {path}"
    of_file = f"{column} = {path}"
    if feed.extract_is == "folder":
        # What is left is not the whole extract: its truncate, under the folder's name, goes too.
        of_file += f" or {column} = {books.literal(file.path.rpartition('/')[0])}"
    is_other = f"_op = 'R' and {column} <> {path}"
    others = spark.table(feed.log).where(is_other).select("_file_at")
    begun = spark.table(feed.log).where(begins).select("_file_at")
    if feed.format == "dms" and others.join(begun, "_file_at", "left_semi").take(1):
        # The reload that this file begins has other files.
        of_file += f" and not ({begins})"
    spark.sql(f"delete from {feed.log} where {of_file}")
    spark.sql(
        f"update {books.DEAD_LETTER} set superseded_by = {load_id} "
        f"where {books.is_of(feed)} and file = {path} and superseded_by is null"
    )


def _found_of_died(load: Load) -> dict[tuple[int, str], int]:
    """The number of rows that loads of runs which died have in the log, by load and file.

    Their dead letters are deleted: this load reads their files again.
    """
    with formats.of_lake().writing():
        load.spark.sql(
            f"delete from {books.DEAD_LETTER} "
            f"where {books.is_of(load.feed)} and load_id > {load.plan.settled}"
        )
    counted = (
        load.unfinished.groupBy("_load_id", "_file")
        .agg(F.expr("count_if(_position > 0)").alias("rows"))
        .collect()
    )
    return {(row["_load_id"], row["_file"]): row["rows"] for row in counted}


def _counts(load: Load, found: DataFrame) -> list[Row]:
    """The counts of each file's records."""
    is_record = f"{events.IS_GOOD} and _position > 0"
    is_late = F.lit(False)
    if load.newest_known and not load.feed.is_full_extract:
        is_late = F.col("_changed_at") < F.lit(load.newest_known)
    return (
        found.withColumn("_is_late", is_late & ~F.col("_is_initial"))
        .groupBy("_file")
        .agg(
            F.expr(f"count_if({events.IS_GOOD}) as entering"),
            F.expr(f"count_if({is_record}) as rows"),
            F.expr("count_if(_reason is not null and _position is not null) as rejected"),
            F.expr("count_if(_skipped is not null and _reason is null) as skipped"),
            F.expr(f"count_if(_skipped = '{erased.SKIPPED}') as erased"),
            F.expr(f"count_if({is_record} and _op in ('R', 'I')) as inserted"),
            F.expr(f"count_if({is_record} and _op = 'U') as updated"),
            F.expr(f"count_if({is_record} and _op = 'D') as deleted"),
            F.expr(f"count_if({is_record} and _is_late) as late"),
            F.expr(f"unix_micros(min(if({is_record}, _changed_at, null))) as oldest"),
            F.expr(f"unix_micros(max(if({is_record}, _changed_at, null))) as newest"),
            F.expr("first(if(_position is null, _reason, null), true) as unreadable"),
            F.expr(
                f"flatten(collect_set(if({events.IS_GOOD}, map_keys(_others), null))) as others"
            ),
        )
        .collect()
    )


def _refused_for_bad_records(feed: Feed, read: DataFrame) -> dict[str, Reason]:
    """The files that a strict feed refuses, and why.

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
        shown = "; ".join(
            printable(f"{row._file}, record {row._position}: {row._reason}") for row in some
        )
        share = feed.max_rejected_share
        raise TableFailedError(
            str(Why.TOO_MANY_BAD(bad=bad, records=total, share=share, some=shown))
        )
    return {
        row["_file"]: Why.BAD_RECORDS(bad=row.bad, records=row.records)
        for row in counted
        if feed.strict and row.bad
    }


def _not_landed_before(load: Load, found: DataFrame) -> DataFrame:
    """The events without the rows that the log has from an earlier reading of the same files.

    Either an earlier load read the same file versions (tidemark replay), or a run died after its
    append; its rows in the log may be of another version of a file.
    """
    plan = load.plan
    place = ["_file", "_position", "_op"]
    if plan.has_unfinished:
        same = [*place, *load.feed.column_names]
        appended = load.unfinished.selectExpr(*[f"`{name}` as `{name} there`" for name in same])
        is_same = " and ".join(f"`{name}` <=> `{name} there`" for name in same)
        found = found.join(appended, F.expr(is_same), "left_anti")
    if not plan.earlier_loads:
        return found
    known = (
        load.log.where(F.col("_load_id").isin(*plan.earlier_loads))
        .where(F.col("_file").isin(*plan.read_before))
        .select(*place)
        .distinct()
    )
    return found.join(known, place, "left_anti")


def _refusal(load: Load, file: LandedFile) -> Reason | None:
    """Why a file is refused before anyone reads it; None when it is not."""
    feed, plan = load.feed, load.plan
    if file.path in plan.gone:
        return Why.VANISHED()
    if file.kind == "misnamed":
        return Why.MISNAMED(file=file.path)
    if file.kind == "foreign":
        if feed.time_in_name and readers.type_of_file(file.path):
            return Why.NO_TIME_IN_NAME(time_in_name=feed.time_in_name)
        return Why.FOREIGN(format=feed.format)
    if feed.ahead and file.path not in plan.confirmed and file.time > events.latest(feed.ahead):
        return Why.FILE_AHEAD(at=file.time, ahead=feed.ahead, file=file.path)
    is_whole = feed.is_full_extract or file.kind == "load"
    if load.cut and is_whole and file.time < load.cut.before:
        return Why.FILE_BEFORE_CUT(at=file.time, before=load.cut.before)
    # Spark silently skips an empty file.
    return Why.NO_BYTES() if file.size == 0 else plan.left_over.get(file.path)


def _append_dead_letters(
    load: Load, refused: Mapping[str, Reason], found: DataFrame | None = None
) -> None:
    """Append refused files, and the refused records of `found`."""
    files = [
        (path, None, None, reason.value, str(reason), None, reason.code.name)
        for path, reason in refused.items()
    ]
    rows = load.spark.createDataFrame(files, books.DEAD_LETTER_ROW)
    if found is not None:
        rows = rows.unionByName(
            found.where("_reason is not null").selectExpr(
                "_file as file",
                "_position as position",
                "_column as column",
                "_value as value",
                "_reason as reason",
                "_raw as raw",
                "_code as code",
            )
        )
    rows = (
        rows.withColumn("source_name", F.lit(load.feed.source))
        .withColumn("table_name", F.lit(load.feed.table))
        .withColumn("load_id", F.lit(load.plan.load_id).cast("bigint"))
        .withColumn("run_id", F.lit(load.run_id))
        .withColumn("at", F.current_timestamp())
        .coalesce(1)
    )
    once = books.transaction(load.feed), load.plan.load_id
    formats.of_lake().append(rows, books.DEAD_LETTER, once)
