"""Positions that contradict time: the source's log or the topic began again without an epoch.

A restored database's log goes back, and a new topic counts from 0: by position, its changes would
silently be older than all that landed before.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark.ingest import full_loads, macros
from tidemark.ingest.events import IS_GOOD
from tidemark.ingest.load import Load
from tidemark.reasons import Reason, Why

# MySQL writes when a statement began, and the clocks of two servers differ.
_HOUR = "interval 1 hour"
HOUR_IN_MICROS = 3_600_000_000
_IS_CHANGE = "_op in ('I', 'U', 'D') and not _is_initial and _sequence is not null"


def refused(load: Load, events: DataFrame) -> dict[str, Reason]:
    """The files of this load that are refused until someone confirms them, and why.

    A change has a later position than another one of its key and epoch, but was made more than an
    hour before it. Of two in one load, the file of the one that was made later is refused.
    """
    feed = load.feed
    columns = [
        *full_loads.typed_key(feed),
        f"{macros.epoch_of(feed.epochs, feed.epoch_at)} as _epoch",
        *["_sequence", "_changed_at", "_file"],
    ]
    # The time of a file does not show when a change was made.
    is_asked = f"{IS_GOOD} and _source_at is not null and {_IS_CHANGE}"
    new = events.where(is_asked).selectExpr(*columns)
    known = load.known.where(_IS_CHANGE)
    of_new = new.selectExpr(
        "min(_sequence) as first",
        "max(_sequence) as last",
        "unix_micros(min(_changed_at)) as oldest",
        "unix_micros(max(_changed_at)) as newest",
        "min(_epoch) as epoch",
    ).collect()[0]
    if of_new.first is None:
        return {}
    if of_new.epoch:
        known = known.where(f"{feed.epoch_at} >= timestamp'{feed.epochs[of_new.epoch - 1]}'")
    # Only these can contradict a change of this load. Delta knows the bounds of both columns in
    # each file: while positions and times rise together, it skips nearly all files.
    suspects = known.where(
        (F.col("_sequence") >= of_new.first)
        & F.expr(f"_changed_at < timestamp_micros({of_new.newest}) - {_HOUR}")
        | (F.col("_sequence") <= of_new.last)
        & F.expr(f"_changed_at > timestamp_micros({of_new.oldest}) + {_HOUR}")
    )
    whose = ["_epoch", *feed.key]
    keys = new.select("_epoch", *[f"`{name}`" for name in feed.key]).distinct()
    story = new.withColumn("_is_known", F.lit(False))
    if suspects.selectExpr(*columns).join(keys, whose, "left_semi").take(1):
        of_keys = known.selectExpr(*columns).join(keys, whose, "left_semi")
        story = story.unionByName(of_keys.withColumn("_is_known", F.lit(True)))
    elif of_new.newest - of_new.oldest <= HOUR_IN_MICROS:
        return {}
    return _contradictions(load, story)


def _contradictions(load: Load, story: DataFrame) -> dict[str, Reason]:
    feed = load.feed
    key = [f"`{name}`" for name in feed.key]
    # A connector that reads its log again may write another time: the first counts. A record in
    # Kafka never changes, so another time at its offset is another record.
    place = ["_epoch", *key, "_sequence", *(["_changed_at"] if feed.is_by_offset else [])]
    in_order = f"partition by _epoch, {', '.join(key)} order by _sequence, _at desc rows between"
    before = f"over ({in_order} unbounded preceding and 1 preceding)"
    behind = f"over ({in_order} 1 following and unbounded following)"
    texts = ", ', ', ".join(f"'{name} ', cast(`{name}` as string)" for name in feed.key)
    found = (
        story.groupBy(*place)
        .agg(
            F.expr("min(_changed_at) as _at"),
            F.expr("bool_or(_is_known) as _is_known"),
            F.expr("collect_set(_file) as _files"),
        )
        .selectExpr(
            *[*key, "_epoch", "_sequence", "_at", "_is_known", "_files"],
            f"min(struct(_at as at, _sequence as position)) {behind} as _earlier",
            # What is in the log was confirmed: it does not make later changes wait.
            f"coalesce(_is_known and min(if(_is_known, _at, null)) {behind} < _at - {_HOUR}, false)"
            " as _is_settled",
        )
        .selectExpr(
            "*",
            "max(if(_is_known and not _is_settled, struct(_at as at, _sequence as position), null))"
            f" {before} as _later",
        )
        .where("not _is_known")
        .selectExpr(
            "explode(_files) as _file",
            f"concat({texts}) as key",
            "_sequence",
            f"case when _earlier.at < _at - {_HOUR} then struct("
            "_at as later, _sequence as position, _earlier.at as earlier, "
            "_earlier.position as other)"
            f" when _later.at > _at + {_HOUR} then struct("
            "_later.at as later, _later.position as position, _at as earlier, "
            "_sequence as other) end as pair",
        )
        .where(F.col("pair").isNotNull() & ~F.col("_file").isin(*load.plan.confirmed))
        .groupBy("_file")
        .agg(F.expr("min_by(struct(key, pair), struct(_sequence, key)) as first"))
        .selectExpr(
            *["_file", "first.key", "first.pair.position", "first.pair.other"],
            "cast(first.pair.later as string) as later",
            "cast(first.pair.earlier as string) as earlier",
        )
        .collect()
    )
    return {
        row["_file"]: Why.POSITIONS_CONTRADICT(
            row["key"],
            later=row["later"],
            position=row["position"],
            earlier=row["earlier"],
            same_or_later="same" if row["other"] == row["position"] else "later",
            other=row["other"],
            file=row["_file"],
        )
        for row in found
    }
