"""The change logs: one table a feed, with every change that arrived, as text."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark import formats
from tidemark.errors import TidemarkError
from tidemark.feeds import Column, Feed
from tidemark.ingest import books
from tidemark.ingest.load import Cut, Load
from tidemark.spark import session

# The columns that landing adds to the source's; see docs/log.md. They are the first,
# because builds skip files by Delta's statistics, which are of a table's first 32 columns only.
COLUMNS = {
    "_load_id": "bigint",
    "_op": "string",
    "_is_delete": "boolean",
    "_is_initial": "boolean",
    "_changed_at": "timestamp",
    "_file_at": "timestamp",
    "_file": "string",
    "_position": "bigint",
    "_landed_at": "timestamp",
    "_sequence": "string",
}
# The comment of a column that a file brought and nobody declared; macros/feeds/feed.sql reads it.
_FOUND = "Found in a file, not declared; data_type "
# The property with every column that was ever declared, and its last type: a column that is gone
# from the YAML stays in the tables.
_DECLARED = "tidemark.declared_columns"
# Spark hides the value of a property that has one of these words, from models and from Tidemark. So
# a mark breaks them, as in macros/drift/derived_from.sql.
_HIDDEN = re.compile("(?i)secret|password|token|access[.]?key|url")
_BREAK = "¦"
# The property that notes the last cut; the macro `cut_of` reads it, too.
_CUT = "tidemark.cut"
_WHOLE = ("tinyint", "smallint", "int", "bigint")


def cut_of(own: books.Books, feed: Feed) -> Cut | None:
    """The last cut of a feed's log."""
    return cut_in(own.properties(feed.log))


def cut_in(properties: Mapping[str, str]) -> Cut | None:
    """The cut that a log's properties note."""
    if _CUT not in properties:
        return None
    told = json.loads(properties[_CUT])
    before, at = (datetime.fromisoformat(told[name]) for name in ("before", "at"))
    # An older Tidemark did not note the last place. Then all old changes are looked at.
    last = told.get("last")
    where = f"_load_id = {last['load_id']} and _position = {last['position']}" if last else "true"
    return Cut(before, told["load_id"], at, where)


def missing(spark: SparkSession, feeds: Iterable[Feed]) -> list[Feed]:
    """The feeds that have no log yet; their schemas are created."""
    feeds = list(feeds)
    there = set()
    for schema in sorted({feed.schema for feed in feeds}):
        spark.sql(f"create schema if not exists `{schema}`")
        for row in spark.sql(f"show tables in `{schema}`").collect():
            there.add((schema, row.tableName))
    return [feed for feed in feeds if (feed.schema, feed.table.lower()) not in there]


def make_ready(spark: SparkSession, own: books.Books, feed: Feed, *, is_missing: bool) -> None:
    """Create a feed's log, or add the columns that were declared since."""
    if is_missing:
        create(spark, feed)
        return
    noted = _noted(own, feed)
    known = from_property(noted)
    now = {column.name: column.type for column in feed.columns}
    # An older Tidemark did not break words.
    if now.items() <= known.items() and not _HIDDEN.search(noted):
        return
    there = {name.lower() for name in spark.table(feed.log).columns}
    added = [f"`{name}` string" for name in now if name.lower() not in there]
    if added:
        spark.sql(f"alter table {feed.log} add columns ({', '.join(added)})")
    names = {name.lower() for name in now}
    gone = {name: known[name] for name in known if name.lower() not in names}
    spark.sql(f"alter table {feed.log} set {_declares(gone | now)}")


def _declares(types: dict[str, str], more: str = "") -> str:
    text = json.dumps(types, ensure_ascii=False)
    declared = _HIDDEN.sub(lambda word: f"{word[0][0]}{_BREAK}{word[0][1:]}", text)
    return f"tblproperties ({books.KEEPS_FORMAT}, '{_DECLARED}' = '{declared}'{more})"


def _noted(own: books.Books, feed: Feed) -> str:
    return own.properties(feed.log).get(_DECLARED, "{}")


def from_property(noted: str) -> dict[str, str]:
    """The mapping in a property with broken words."""
    return dict(json.loads(noted.replace(_BREAK, "")))


def create(spark: SparkSession, feed: Feed) -> None:
    """Create a feed's log."""
    of_format = formats.of_lake().log_properties.items()
    more = "".join(f", '{name}' = '{value}'" for name, value in of_format)
    declares = _declares({column.name: column.type for column in feed.columns}, more)
    own = [f"{in_log(name)} {data_type}" for name, data_type in COLUMNS.items()]
    columns = ", ".join([*own, *(f"`{name}` string" for name in feed.column_names)])
    # Deletes are in files of their own: builds look them up by themselves, as tombstones.
    session.create_table(spark, feed.log, columns, f"partitioned by (_is_delete) {declares}")


def with_known_columns(own: books.Books, feed: Feed) -> Feed:
    """The feed with the other columns of its log, besides the declared ones.

    Files brought them, or they were declared once; a feed that refuses new columns refuses these.
    """
    declared = {name.lower() for name in (*map(in_log, COLUMNS), *feed.column_names)}
    comments = own.columns(feed.log)
    others = [name for name in comments if name.lower() not in declared]
    if not others:
        return feed
    once = {name.lower(): each for name, each in from_property(_noted(own, feed)).items()}
    found = []
    for name in others:
        is_found = comments[name].startswith(_FOUND)
        data_type = comments[name].removeprefix(_FOUND) if is_found else "string"
        if is_found or feed.new_columns == "add":
            found.append(Column(name, once.get(name.lower(), data_type), False))
    return replace(feed, columns=(*feed.columns, *found))


def add_columns(load: Load, found: Iterable[str]) -> list[str]:
    """Add the columns that files have and the log lacks; `found` are names with their types."""
    new = _types(found)
    for name, data_type in new.items():
        comment = f"{_FOUND}{data_type}"
        load.spark.sql(
            f"alter table {load.feed.log} add column (`{name}` string comment '{comment}')"
        )
    return [f"{name} {data_type}" for name, data_type in new.items()]


def append(load: Load, events: DataFrame, new_columns: Iterable[str]) -> None:
    """Append a load; the values of `new_columns` are in the map of others."""
    feed = load.feed
    columns = []
    for name in (column.split(" ")[0] for column in new_columns):
        entries = f"filter(map_entries(_others), entry -> split_part(entry.key, ' ', 1) = '{name}')"
        columns.append(F.expr(f"{entries}[0].value").alias(name))
    own = [F.col(name).alias(in_log(name)) for name in COLUMNS]
    rows = events.select(*own, *[f"`{name}`" for name in feed.column_names], *columns)
    formats.of_lake().append(rows, feed.log, (books.transaction(feed), load.plan.load_id))


def in_log(name: str) -> str:
    """The name in the log of one of `COLUMNS`."""
    return formats.of_lake().file_column if name == "_file" else name


def copies(load: Load, changes: DataFrame, oldest: datetime | None) -> int:
    """The number of these changes that are copies (rule 3), of this load or of an earlier one.

    A copy has the time of its original, so a load that is newer than all earlier ones has no
    copies of theirs.
    """
    feed = load.feed
    if not oldest or not feed.has_copies:
        return 0
    # A hash ignores NULLs, wherever they are.
    columns = ", ".join(f"`{name}`, isnull(`{name}`)" for name in feed.column_names)
    content = f"xxhash64(_op, _sequence, {columns}) as content"
    new = changes.selectExpr(content, "_changed_at")
    counted = new.selectExpr(
        "count(*) as rows",
        "count(distinct content) as contents",
        "min(_changed_at) as first",
        "max(_changed_at) as last",
    ).collect()[0]
    copies = counted.rows - counted.contents
    if load.newest_known and oldest <= load.newest_known:
        known = load.known.where(
            F.col("_changed_at").between(F.lit(counted.first), F.lit(counted.last))
        )
        copies += (
            new.select("content")
            .distinct()
            .join(known.selectExpr(content).distinct(), "content", "left_semi")
            .count()
        )
    return int(copies)


def require_rows(load: Load, count: int) -> None:
    """Raise TidemarkError unless the log has so many rows of this load."""
    load_id = load.plan.load_id
    there = books.of(load.spark).rows_of_load(load.feed, load_id)
    if there != count:
        raise TidemarkError(
            f"{load.feed.log} has {there} rows of load {load_id}, and {count} were to be written. "
            "Nothing of this load counts as landed: the next run tries again, under a new load id."
        )


def _types(found: Iterable[str]) -> dict[str, str]:
    """The type of each new column; where files disagree, one that fits all."""
    types: dict[str, str] = {}
    for entry in sorted(found):
        name, data_type = entry.split(" ", 1)
        known = types.setdefault(name, data_type)
        if known != data_type:
            whole = {known, data_type} <= set(_WHOLE)
            types[name] = max(known, data_type, key=_WHOLE.index) if whole else "string"
    return types
