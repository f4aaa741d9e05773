"""Full loads: an extract or a reload is a whole table, so keys that it lacks are deleted.

That makes a broken one dangerous. This module refuses those, and decides what a load replaces.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark import readers
from tidemark.feeds import Feed
from tidemark.ingest import books, macros
from tidemark.ingest.events import IS_GOOD
from tidemark.ingest.file_names import is_load_in_sql
from tidemark.ingest.files import LandedFile
from tidemark.ingest.load import Load
from tidemark.reasons import Reason, Why
from tidemark.storage import from_micros

# These identify an extract: a file may be written again.
_EXTRACT = ("_file_at", "_extract")


# The one row of a file without rows.
_IS_MARK = f"(_position is null and coalesce(_skipped = '{readers.NO_ROWS}', false))"


def _extract(feed: Feed) -> str:
    """The SQL expression of the extract that a row belongs to: its file, or its file's folder."""
    whole = "regexp_replace(_file, '/[^/]*$', '')"
    return f"{whole if feed.extract_is == 'folder' else '_file'} as _extract"


def typed_key(feed: Feed) -> list[str]:
    """The SQL expressions of the typed key: 1, +1 and 01 are one key."""
    types = {column.name: column.type for column in feed.columns}
    return [f"{macros.cast_text(f'`{name}`', types[name])} as `{name}`" for name in feed.key]


def refused_extracts(load: Load, events: DataFrame) -> tuple[dict[str, Reason], list[Reason]]:
    """The files of this load's refused extracts, and why; and remarks about what others delete.

    An extract is refused when it has a key twice, when it has no rows, and when it lacks more keys
    of the extract before it in time than `max_deleted_share` allows. Someone can confirm the
    latter two; see `tidemark confirm`.
    """
    feed = load.feed
    events = events.selectExpr("*", _extract(feed))
    good = events.where(IS_GOOD)
    refused = _with_repeated_keys(feed, good) | _without_rows(load, events)
    while True:
        shrunken = _shrunken(load, good.where(~F.col("_extract").isin(*refused)))
        first = next((each for each in shrunken if each.is_too_much), None)
        if not first:
            break
        refused[first.extract] = first.reason(Why.LACKS_KEYS, share=feed.max_deleted_share)
    remarks = [each.reason(Why.DELETES_KEYS) for each in shrunken]
    if feed.extract_is == "file" or not refused:
        return refused, remarks
    parts = events.select("_file", "_extract").distinct().collect()
    of_parts = {row["_file"]: row["_extract"] for row in parts if row["_extract"] in refused}
    return {path: refused[extract] for path, extract in of_parts.items()}, remarks


@dataclass(frozen=True)
class Shrunken:
    """An extract that lacks keys of the extract before it."""

    extract: str
    before: str
    gone: int
    keys: int
    is_too_much: bool = False

    def reason(self, why: Why, **arguments: object) -> Reason:
        """The reason with what the extract lacks."""
        before = "its earlier version" if self.before == self.extract else self.before
        told = {"extract": self.extract, "before": before}
        return why(None, gone=self.gone, keys=self.keys, **told, **arguments)


def refused_with_others(
    feed: Feed, found: Collection[LandedFile], refused: Mapping[str, Reason]
) -> dict[str, Reason]:
    """The files of extracts of which another file is refused: what is left is not the whole table.

    An empty file does not count: Spark writes such parts.
    """
    if feed.extract_is != "folder":
        return {}
    broken = {
        path.rpartition("/")[0]: path
        for path, reason in refused.items()
        if reason.code is not Why.NO_BYTES
    }
    return {
        file.path: Why.OTHER_FILE_REFUSED(other=broken[folder])
        for file in found
        if (folder := file.path.rpartition("/")[0]) in broken and file.path not in refused
    }


def _without_rows(load: Load, events: DataFrame) -> dict[str, Reason]:
    """The extracts of which no file has rows, unless someone confirmed them."""
    empty = events.groupBy("_extract").agg(
        F.expr(f"count_if(not {_IS_MARK}) as rows"), F.min("_file").alias("first")
    )
    return {
        row["_extract"]: Why.EMPTY_EXTRACT(extract=row["_extract"])
        for row in empty.where("rows = 0").collect()
        if row["first"] not in load.plan.confirmed
    }


def _with_repeated_keys(feed: Feed, good: DataFrame) -> dict[str, Reason]:
    keys = ", ".join(f"`{name}`" for name in feed.key)
    texts = ", ', ', ".join(f"'{name} ', cast(key.`{name}` as string)" for name in feed.key)
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
        .selectExpr("_extract", "keys", f"transform(some, key -> concat({texts})) as some")
        .collect()
    )
    return {
        row["_extract"]: Why.REPEATED_KEYS("; ".join(row["some"]), keys=row["keys"])
        for row in found
    }


def _shrunken(load: Load, good: DataFrame) -> list[Shrunken]:
    """The extracts that delete keys, in order."""
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
        return []
    numbers = load.spark.createDataFrame(pairs, "nth int, _file_at timestamp, _extract string")
    # With the times as literals, Delta skips the files of all other extracts.
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
    found = []
    for row in counts:
        extract = extracts[row["nth"]] if row["nth"] < len(extracts) else None
        if extract not in of_new or not row["gone"]:
            continue
        _, path = extract
        is_confirmed = any(each == path or each.startswith(f"{path}/") for each in confirmed)
        is_too_much = not is_confirmed and row["gone"] > feed.max_deleted_share * row["keys"]
        before = extracts[row["nth"] - 1][1]
        found.append(Shrunken(path, before, row["gone"], row["keys"], is_too_much))
    return found


def with_truncates(load: Load, events: DataFrame) -> DataFrame:
    """Extracts, each after a truncate, which deletes the keys that it lacks.

    An extract with a bad row gets no truncate: the row would count as deleted.
    """
    truncates = (
        events.selectExpr("*", _extract(load.feed))
        .groupBy("_extract", "_file_at", "_changed_at", "_load_id", "_landed_at")
        .agg(F.count("_reason").alias("_bad"))
        .where("_bad = 0")
        .drop("_bad")
        .withColumnRenamed("_extract", "_file")
    )
    rows = events.where(f"not {_IS_MARK}")
    return rows.unionByName(_as_truncates(truncates), allowMissingColumns=True)


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
) -> tuple[DataFrame, list[Reason]]:
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
    micros = load.reloads.selectExpr("unix_micros(max(_file_at)) as at").collect()[0]["at"]
    started_at = None if micros is None else from_micros(micros)
    # With `delete_when`, a row of a load may be a delete.
    of_generation = log.where("_op in ('R', 'D')").where(
        "_is_initial"
        if micros is None
        else f"not _is_initial and unix_micros(_file_at) = {micros} and {is_load_in_sql('_file')}"
    )
    again = [file for file in files if file.path not in plan.read_before]
    before = of_generation.where(F.col("_file").isin(*[file.path for file in again]))
    is_load = F.col("_is_initial")
    # Rows that are left out, such as those of erased subjects, are not in the log either.
    good = events.where(is_load & F.expr(IS_GOOD))
    is_meant = any(file.path in plan.reloads for file in again)
    is_reload, questions = is_meant or _differs(load, before, good), list[Reason]()
    if not is_reload:
        is_reload, questions = _was_loaded_again(load, of_generation, again)
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
    load: Load, of_generation: DataFrame, again: Sequence[LandedFile]
) -> tuple[bool, list[Reason]]:
    """Whether the producer wrote a load again with the rows of the known one; and a question."""
    known = of_generation.groupBy("_file").agg(F.max("_file_at").alias("at")).collect()
    paths = {file.path for file in again}
    if not known or not {row["_file"] for row in known} <= paths:
        return False, []
    since, until = F.lit(max(row["at"] for row in known)), F.lit(min(again).time)
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
    return False, [Why.WRITTEN_AGAIN(file=path)]


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
    """The load rows with the time of their generation, and not as an initial load."""
    is_load = F.col("_is_initial")
    at = F.lit(started_at)
    return (
        events.withColumn("_file_at", F.when(is_load, at).otherwise(F.col("_file_at")))
        .withColumn("_changed_at", F.when(is_load, at).otherwise(F.col("_changed_at")))
        .withColumn("_is_initial", F.lit(False))
    )
