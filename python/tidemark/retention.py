"""How long a change log keeps changes: the feed's setting `keep_changes`.

`tidemark maintain` cuts the log: of the changes from before a time, it keeps only the last one of
each key (macros/retention/). Landing refuses changes from before that time, because the log no
longer tells what they follow. A history keeps its versions from before the cut.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidemark import feed_values, formats, report
from tidemark.dbt_plugin import project
from tidemark.errors import ConfigError, TidemarkError, printable
from tidemark.feeds import Feed
from tidemark.ingest import books, ledger, log
from tidemark.ingest.books import Books
from tidemark.ingest.load import log_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A cut reads the whole log, so it must be worth it: it moves by this part of the time to keep.
_PART = 10
# The setting of a history with its own columns. A bitemporal one has so many of them.
_COLUMNS = "own column names"
_BITEMPORAL = 7


def keeps_versions(own: Books, parsed: project.Project, name: str) -> bool:
    """Whether the node is a history with versions that its log no longer has.

    A full refresh keeps them as they are.
    """
    return bool(_settings(own, parsed.nodes[name]).get(_COLUMNS)) and any(
        log.cut_of(own, feed) for feed in _above(own, parsed, name)
    )


def require_no_cut_since(own: Books, parsed: project.Project, name: str, at: datetime) -> None:
    """Raise TidemarkError if a log above a node was cut after this time.

    The node's table as of then would need changes that are gone.
    """
    for feed in _above(own, parsed, name):
        last = log.cut_of(own, feed)
        if last and last.at > at:
            raise TidemarkError(
                f"The log of {feed.name} was cut at {last.at:%Y-%m-%d %H:%M} (keep_changes), so it "
                "may lack changes that came after that version. Nothing was restored."
            )


def _above(own: Books, parsed: project.Project, name: str) -> list[Feed]:
    """The feeds with a log above a node."""
    names = {parsed.nodes[each].feed for each in parsed.above([name])}
    return [feed for feed in parsed.feeds if feed.name in names and own.newest_load(feed)]


def due(own: Books, logs: Iterable[Feed]) -> list[tuple[Feed, datetime]]:
    """The logs that are worth a cut, and the time before which changes are to go."""
    now = datetime.now(UTC)
    return [(feed, before) for feed in logs if (before := _due(own, feed, now))]


def _due(own: Books, feed: Feed, now: datetime) -> datetime | None:
    if not feed.keep_changes or not own.newest_load(feed):
        return None
    keep = feed_values.span(feed.keep_changes)
    before = (now - keep).replace(hour=0, minute=0, second=0, microsecond=0)
    last = log.cut_of(own, feed)
    if last:
        return before if before - last.before >= keep / _PART else None
    oldest = own.oldest_change(feed)
    return before if oldest is None or oldest < before else None


def cut_logs(
    own: Books,
    parsed: project.Project,
    cuts: Sequence[tuple[Feed, datetime]],
    say: Callable[[str], None],
    *,
    dry_run: bool = False,
) -> None:
    """Cut these logs, and tell so, and what hinders the others; `dry_run` only tells.

    Raises TidemarkError if a cut fails.
    """
    if not cuts:
        return
    waiting = parsed.due(ledger.read(own, {}).newest_loads, project.read_builds(own)[0])
    for feed, before in cuts:
        if obstacle := _obstacle(own, parsed, feed, waiting):
            not_cut = "would not be cut" if dry_run else "was not cut"
            say(f"The log of {feed.name} {not_cut}: {obstacle}.")
        elif dry_run:
            say(f"The log of {feed.name} would be cut: changes from before {before:%Y-%m-%d}.")
        else:
            count = report.counted(cut(own, feed, before), "change")
            say(f"Cut the log of {feed.name}: deleted {count} from before {before:%Y-%m-%d}.")


def _obstacle(own: Books, parsed: project.Project, feed: Feed, waiting: set[str]) -> str:
    """Why the log must not be cut now, '' if it may be. `waiting` are the nodes to build."""
    below = parsed.below(parsed.sources_of([feed.name]))
    if not below.isdisjoint(waiting):
        names = ", ".join(sorted(parsed.nodes[name].name for name in below & waiting))
        return f"{names} must be built from it first: tidemark run"
    for name in sorted(below):
        node = parsed.nodes[name]
        if node.table and not (format := formats.of(node.table)).replaces:
            return (
                f"{node.table} is a {format.title} table, which cannot keep versions from before "
                "the cut. Remove keep_changes"
            )
        settings = _settings(own, node)
        is_bitemporal = len(settings.get(_COLUMNS, "").split(", ")) >= _BITEMPORAL
        if is_bitemporal or settings.get("feeds"):
            why = "is bitemporal" if is_bitemporal else "has several feeds"
            return f"{node.table} {why}, so it needs all changes. Remove keep_changes"
    return ""


def _settings(own: Books, node: project.Node) -> Mapping[str, Any]:
    """What a current or history table was derived with; see macros/drift/derived_from.sql."""
    from tidemark.spark import session

    # Only Spark knows the tables of other formats.
    asked = Books(session.get()) if node.other else own
    name = books.quoted(node.table)
    if not node.table or not asked.exists(name):
        return {}
    return log.from_property(asked.properties(name).get(books.DERIVED, "{}"))


def cut(own: Books, feed: Feed, before: datetime) -> int:
    """Cut a feed's log; gives how many changes were deleted. Raises TidemarkError if it fails."""
    from tidemark.dbt_plugin import dbt

    told = {
        "source_name": feed.source,
        "table_name": feed.table,
        "before": before.isoformat(sep=" "),
        "load_id": own.newest_load(feed),
        "by": "file" if feed.is_full_extract else "change",
        "keeps_load": feed.format == "dms",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    arguments = ["run-operation", "tidemark.cut_log", "--args", json.dumps(told)]
    before_cut = own.spark.table(feed.log).count()
    result = dbt.invoke(["--quiet", *arguments])
    if not result.success:
        raise TidemarkError(f"The log of {feed.name} was not cut. {result.exception or ''}")
    return before_cut - own.spark.table(feed.log).count()


def retract(spark: "SparkSession", path: str, run_id: str) -> str:
    """As `ledger.retract`. Raises ConfigError if changes of the file are from before a cut.

    Without them, the log does not tell what was there before.
    """
    own = books.of(spark)
    for feed in project.current().feeds:
        last = log.cut_of(own, feed) if own.newest_load(feed) else None
        if not last:
            continue
        of_file = f"{books.is_of(feed)} and status = 'landed' and {_is_at(path, 'file')}"
        entries = spark.table(books.LEDGER).where(of_file).groupBy("load_id", "file")
        landed = entries.agg({"rows": "max"}).toDF("load_id", "file", "rows")
        time = "_file_at" if feed.is_full_extract else "_changed_at"
        newer = log_of(spark, feed).where(
            f"{_is_at(path, '_file')} and _position > 0 "
            f"and {time} >= timestamp'{last.before.isoformat(sep=' ')}'"
        )
        if newer.count() < (landed.agg({"rows": "sum"}).collect()[0][0] or 0):
            raise ConfigError(
                f"{printable(path)} has changes from before {last.before:%Y-%m-%d}, and the log of "
                f"{feed.name} lacks those that came before them (keep_changes). So it cannot be "
                "taken back. A correction must come as a new change."
            )
    return ledger.retract(spark, path, run_id)


def _is_at(path: str, column: str) -> str:
    """The SQL condition that a column has this path, or one below this folder."""
    below = books.literal(f"{path.rstrip('/')}/")
    return f"({column} = {books.literal(path)} or startswith({column}, {below}))"
