"""Changes that a log which was cut cannot take (`keep_changes`), although they are not old.

Of the changes from before the cut, the log has only the last one of each key. What has a lower
place in the order of the key would belong among those that are gone.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark.feeds import Feed
from tidemark.ingest import full_loads, macros
from tidemark.ingest.events import IS_GOOD
from tidemark.ingest.load import Load
from tidemark.reasons import Why

_PLACE = ("_file", "_position", "_op")
# Changes are not before the cut by their time if it also orders them.
_TIMES = ("timestamp", "timestamp_ntz", "date")


def may_go_back(feed: Feed) -> bool:
    """Whether a change that is not old may have a lower place than one that is."""
    if feed.is_full_extract:
        return False
    if not feed.sequence:
        # Files order the changes. Without a time of their own, they have that of their file.
        return feed.timestamp_column is not None
    types = {column.name: column.type for column in feed.columns}
    is_in_time = feed.sequence == (feed.timestamp_column,) and not feed.epochs
    return not (is_in_time and types.get(feed.sequence[0]) in _TIMES)


@contextmanager
def refused(load: Load, events: DataFrame) -> Iterator[DataFrame]:
    """The events of a load, with those refused that belong before the last old change of their key.

    The rows of an initial load do: they are older than all changes, and builds leave them out.
    """
    feed, cut = load.feed, load.cut
    if not cut or not may_go_back(feed):
        yield events
        return
    fields = macros.place_of_change(feed, has_reloads=feed.has_generations)
    key = [f"`{name}`" for name in feed.key]

    def placed(rows: DataFrame) -> DataFrame:
        if feed.has_generations:
            rows = rows.crossJoin(F.broadcast(_reloads(load)))
        of_row = f"named_struct({fields}) as _order"
        return rows.selectExpr(*full_loads.typed_key(feed), *_PLACE, of_row)

    is_old = f"_changed_at < timestamp'{cut.before.isoformat(sep=' ')}'"
    old = load.log.where(f"_load_id <= {cut.load_id} and {is_old}")
    is_asked = f"{IS_GOOD} and not _is_initial and _op <> 'T'"
    new = placed(events.where(is_asked))
    # One row of the log tells that there is none, in nearly every load.
    highest = placed(old.where(cut.last)).selectExpr("max(_order) as _highest")
    suspects = new.crossJoin(F.broadcast(highest)).where("coalesce(_order <= _highest, true)")
    if not suspects.take(1):
        yield events
        return
    old = placed(old)
    of_keys = old.where("_op <> 'T'").groupBy(*key).agg(F.max("_order").alias("_last"))
    of_all = old.where("_op = 'T'").selectExpr("max(_order) as _last_of_all")
    is_before = "coalesce(_order <= _last, false) or coalesce(_order <= _last_of_all, false)"
    found = (
        new.join(of_keys, list(feed.key), "left")
        .crossJoin(F.broadcast(of_all))
        .where(is_before)
        .select(*_PLACE, F.lit(True).alias("_is_before"))
        .distinct()
        .persist()
    )
    name = next(iter(feed.sequence_columns), None)
    reason = Why.BEFORE_LAST_OLD(before=cut.before)
    told = {
        "_reason": F.lit(str(reason)),
        "_code": F.lit(reason.code.name),
        "_column": F.lit(name).cast("string"),
        "_value": F.col(f"`{name}`") if name else F.col("_sequence"),
    }
    try:
        yield (
            events.join(F.broadcast(found), list(_PLACE), "left")
            .withColumns(
                {
                    column: F.when(F.col("_is_before"), value).otherwise(F.col(column))
                    for column, value in told.items()
                }
            )
            .select(*events.columns)
        )
    finally:
        found.unpersist()


def _reloads(load: Load) -> DataFrame:
    """The reloads of the log. If this load has load files, they may turn out to be one, too."""
    now = sorted((file.time,) for file in load.plan.files if file.kind == "load")[:1]
    of_load = load.spark.createDataFrame(now, "_file_at timestamp")
    known = load.reloads.select("_file_at")
    return known.union(of_load).selectExpr("array_agg(struct(_file_at)) as _reloads")
