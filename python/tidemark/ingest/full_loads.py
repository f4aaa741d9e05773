"""Full loads: extracts and reloads stand for a whole table, so what they lack is deleted.

That makes a broken one dangerous: the guards are here, and here it is told what a load replaces.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark import readers
from tidemark.feeds import Feed
from tidemark.ingest import books, macros
from tidemark.ingest.files import LandedFile
from tidemark.ingest.load import Load
from tidemark.ingest.problems import Reason
from tidemark.storage import from_micros

# An extract is known by these: a file may be written again.
_EXTRACT = ("_file_at", "_extract")


def _extract(feed: Feed) -> str:
    """The SQL expression of the extract that a row belongs to: its file, or its file's folder."""
    whole = "regexp_replace(_file, '/[^/]*$', '')"
    return f"{whole if feed.extract_is == 'folder' else '_file'} as _extract"


def typed_key(feed: Feed) -> list[str]:
    """The key as it is typed: 1, +1 and 01 are one key."""
    types = {column.name: column.type for column in feed.columns}
    return [f"{macros.cast_text(f'`{name}`', types[name])} as `{name}`" for name in feed.key]


def refused_extracts(load: Load, events: DataFrame) -> dict[str, str]:
    """Why extracts of this load cannot be taken, by file.

    A key that stands twice, and more deletions than `max_deleted_share` allows, compared with the
    extract before it in time. Someone can confirm the second; see `tidemark confirm`.
    """
    feed = load.feed
    events = events.selectExpr("*", _extract(feed))
    good = events.where("_reason is null and _skipped is null")
    refused = _with_repeated_keys(feed, good)
    if feed.extract_is == "folder":
        refused |= _without_rows(events, load.plan.confirmed)
    while True:
        shrunken = _first_shrunken(load, good.where(~F.col("_extract").isin(*refused)))
        if not shrunken:
            break
        refused.update(shrunken)
    if feed.extract_is == "file" or not refused:
        return refused
    parts = events.select("_file", "_extract").distinct().collect()
    return {row["_file"]: refused[row["_extract"]] for row in parts if row["_extract"] in refused}


def refused_with_others(
    feed: Feed, found: Collection[LandedFile], refused: Mapping[str, str]
) -> dict[str, str]:
    """Files of extracts of which another file cannot be taken: the rest would stand for the whole.

    An empty file is no loss: Spark writes such parts.
    """
    if feed.extract_is != "folder":
        return {}
    broken = {
        path.rpartition("/")[0]: path for path, why in refused.items() if why != readers.NO_BYTES
    }
    return {
        file.path: f"{broken[folder]} of the same extract was refused"
        for file in found
        if (folder := file.path.rpartition("/")[0]) in broken and file.path not in refused
    }


def _without_rows(events: DataFrame, confirmed: Collection[str]) -> dict[str, str]:
    """The folders whose parts are all empty."""
    empty = events.groupBy("_extract").agg(
        F.expr("count_if(_skipped is null) as rows"), F.min("_file").alias("first")
    )
    return {
        row["_extract"]: f"{readers.NO_ROWS}; if it is right: tidemark confirm {row['_extract']}"
        for row in empty.where("rows = 0").collect()
        if row["first"] not in confirmed
    }


def _with_repeated_keys(feed: Feed, good: DataFrame) -> dict[str, str]:
    keys = ", ".join(f"`{name}`" for name in feed.key)
    told = ", ', ', ".join(f"'{name} ', cast(key.`{name}` as string)" for name in feed.key)
    found = (
        good.selectExpr("_extract", *typed_key(feed))
        .groupBy("_extract", *[f"`{name}`" for name in feed.key])
        .count()
        .where("count > 1")
        .groupBy("_extract")
        .agg(
            F.count("*").alias("keys"),
            F.expr(f"slice(array_sort(collect_list(struct({keys}))), 1, 3)").alias("some"),
        )
        .selectExpr("_extract", "keys", f"transform(some, key -> concat({told})) as some")
        .collect()
    )
    return {
        row["_extract"]: Reason(
            f"{row['keys']} keys stand in the extract more than once: tidemark.dead_letter names "
            "some as its value",
            "; ".join(row["some"]),
        )
        for row in found
    }


def _first_shrunken(load: Load, good: DataFrame) -> dict[str, str]:
    """The first extract, in order, that deletes too much, and why; empty when none does."""
    feed, confirmed, log = load.feed, load.plan.confirmed, load.known
    truncates = log.where("_is_delete and _op = 'T'")
    known = truncates.selectExpr("_file_at", "_file as _extract").distinct().collect()
    new = good.select(*_EXTRACT).distinct().collect()
    of_new = {tuple(row) for row in new}
    extracts = sorted(of_new.union(tuple(row) for row in known))
    pairs = [
        (number, *extract)
        for number, extract in enumerate(extracts)
        if extract in of_new or (number + 1 < len(extracts) and extracts[number + 1] in of_new)
    ]
    if len(pairs) < 2:
        return {}
    numbers = load.spark.createDataFrame(pairs, "nth int, _file_at timestamp, _extract string")
    # The times as literals: Delta passes over the files of all other extracts.
    rows = (
        log.where((F.col("_op") == "R") & F.col("_file_at").isin(*{at for _, at, _ in pairs}))
        .selectExpr("_file_at", _extract(feed), *typed_key(feed))
        .unionByName(good.selectExpr(*_EXTRACT, *typed_key(feed)))
        .join(F.broadcast(numbers), list(_EXTRACT))
        .select("nth", *[f"`{name}`" for name in feed.key])
        .distinct()
    )
    before = rows.withColumn("nth", F.expr("nth + 1"))
    keys = ["nth", *feed.key]
    counts = (
        before.join(rows.withColumn("is_there", F.lit(True)), keys, "left")
        .groupBy("nth")
        .agg(F.count("*").alias("keys"), F.expr("count_if(is_there is null)").alias("gone"))
        .orderBy("nth")
        .collect()
    )
    for row in counts:
        extract = extracts[row["nth"]] if row["nth"] < len(extracts) else None
        parts = tuple(path for path in confirmed if path.startswith(f"{(extract or ('', ''))[1]}/"))
        if extract not in of_new or extract[1] in confirmed or parts:
            continue
        if row["gone"] > feed.max_deleted_share * row["keys"]:
            _, path = extract
            return {
                path: f"the extract lacks {row['gone']} of the {row['keys']} keys of "
                f"{extracts[row['nth'] - 1][1]} before it, which is more than max_deleted_share "
                f"{feed.max_deleted_share:g}; if they are to be deleted: tidemark confirm {path}"
            }
    return {}


def with_truncates(load: Load, events: DataFrame) -> DataFrame:
    """Extracts, each after a truncate: what it lacks is deleted.

    No truncate for an extract without a row, unless confirmed, nor for one with a bad row: the
    rows that could not be read would count as deleted.
    """
    is_confirmed = F.col("_file").isin(*load.plan.confirmed) & (F.col("_reason") == readers.NO_ROWS)
    events = events.withColumn("_is_empty", F.coalesce(is_confirmed, F.lit(False)))
    truncates = (
        events.selectExpr("*", _extract(load.feed))
        .groupBy("_extract", "_file_at", "_changed_at", "_load_id", "_landed_at")
        .agg(F.expr("count_if(_reason is not null and not _is_empty) as _bad"))
        .where("_bad = 0")
        .drop("_bad")
        .withColumnRenamed("_extract", "_file")
    )
    return (
        events.where("not _is_empty")
        .drop("_is_empty")
        .unionByName(_as_truncates(truncates), allowMissingColumns=True)
    )


def _as_truncates(files: DataFrame) -> DataFrame:
    return files.selectExpr(
        *["_file", "_file_at", "_changed_at", "_load_id", "_landed_at"],
        "'T' as _op",
        "false as _is_initial",
        "0L as _position",
        "true as _is_delete",
    )


def in_their_generation(
    load: Load, events: DataFrame, files: Sequence[LandedFile], *, is_whole: bool
) -> tuple[DataFrame, list[str]]:
    """The rows of a DMS task's load files as initial load, or as a reload; and questions.

    Load files that landed before and now hold other rows are a reload, together with those that
    come with them: a new generation, which a truncate at position 0 of its first file begins. All
    its rows have that file's time. So are all files of a load that were written again, behind
    changes, though their rows are the same; of a single file nobody knows whether it was copied
    or loaded again, which is a question. Further load files belong to the generation that
    is there; so does a file with the rows that it had, rows that were refused before, and a file
    version that is read again. A reload that is not whole, since a file or a row of it was
    refused, deletes nothing.
    """
    log, plan = load.known, load.plan
    last = log.where("_is_delete and _op = 'T' and _position = 0")
    micros = last.selectExpr("unix_micros(max(_file_at)) as at").collect()[0]["at"]
    started_at = None if micros is None else from_micros(micros)
    of_generation = log.where("_op = 'R'").where(
        "_is_initial" if micros is None else f"not _is_initial and unix_micros(_file_at) = {micros}"
    )
    anew = [file for file in files if file.path not in plan.read_before]
    before = of_generation.where(F.col("_file").isin(*[file.path for file in anew]))
    is_load = F.col("_is_initial")
    good = events.where(is_load & F.col("_reason").isNull())
    is_meant = any(file.path in plan.meant_anew for file in anew)
    is_reload, questions = is_meant or _differs(load, before, good), list[str]()
    if not is_reload:
        is_reload, questions = _was_loaded_again(load, of_generation, anew)
    if is_reload:
        first = min(files)
        placed = _placed(events, first.time).unionByName(
            _as_truncates(
                events.where(is_load)
                .groupBy("_load_id", "_landed_at")
                .agg(F.count("_reason").alias("_bad"))
                .where((F.col("_bad") == 0) & F.lit(is_whole))
                .select(
                    "_load_id",
                    "_landed_at",
                    F.lit(first.path).alias("_file"),
                    F.lit(first.time).alias("_file_at"),
                    F.lit(first.time).alias("_changed_at"),
                )
            ),
            allowMissingColumns=True,
        )
        return placed, questions
    return events if started_at is None else _placed(events, started_at), questions


def _was_loaded_again(
    load: Load, of_generation: DataFrame, anew: Sequence[LandedFile]
) -> tuple[bool, list[str]]:
    """Whether the producer wrote a load again with the rows of the known one; and a question."""
    known = of_generation.groupBy("_file").agg(F.max("_file_at").alias("at")).collect()
    paths = {file.path for file in anew}
    if not known or not {row["_file"] for row in known} <= paths:
        return False, []
    since, until = F.lit(max(row["at"] for row in known)), F.lit(min(anew).time)
    changes = load.known.where("_op in ('I', 'U', 'D') and not _is_initial")
    if not changes.where((F.col("_file_at") > since) & (F.col("_file_at") < until)).take(1):
        return False, []
    copied = [file.path for file in load.plan.files if file.kind == "changes"]
    if copied and changes.where(F.col("_file").isin(*copied)).take(1):
        # The whole folder was copied.
        return False, []
    if len(known) > 1:
        return True, []
    (path,) = (row["_file"] for row in known)
    return False, [
        f"{path} was written again with the rows that it had, after changes. It counts as a copy "
        f"of the file; if it is a reload, run: tidemark confirm {path}"
    ]


def _differs(load: Load, before: DataFrame, now: DataFrame) -> bool:
    content = ["_file", "_position", *[f"`{name}`" for name in load.feed.column_names]]
    known_files = [row["_file"] for row in before.select("_file").distinct().collect()]
    if not known_files:
        return False
    now = now.where(F.col("_file").isin(*known_files))
    if before.select(*content).exceptAll(now.select(*content)).take(1):
        return True
    refused = (
        load.spark.table(books.DEAD_LETTER)
        .where(books.is_of(load.feed))
        .selectExpr("file as _file", "position as _position")
        .distinct()
    )
    # Bad rows that were mended in their file are no reload.
    added = now.join(before.select("_file", "_position"), ["_file", "_position"], "left_anti")
    return bool(added.join(refused, ["_file", "_position"], "left_anti").take(1))


def _placed(events: DataFrame, started_at: datetime) -> DataFrame:
    """The load rows at the time of their generation, and no longer as an initial load."""
    is_load = F.col("_is_initial")
    at = F.lit(started_at)
    return (
        events.withColumn("_file_at", F.when(is_load, at).otherwise(F.col("_file_at")))
        .withColumn("_changed_at", F.when(is_load, at).otherwise(F.col("_changed_at")))
        .withColumn("_is_initial", F.lit(False))
    )
