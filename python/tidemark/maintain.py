"""`tidemark maintain`: compact small files, delete the files of old versions, forget old runs.

The tables' formats do the work. Before, Python looks at each table, so that Spark starts only if a
table needs something. A run maintains when the project's policy says that it is due.
"""

import difflib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from tidemark import feed_values, formats, paths, report, retention
from tidemark.dbt_plugin import project
from tidemark.errors import ConfigError, TidemarkError
from tidemark.formats.delta import AT_ONCE, MAINTENANCE
from tidemark.formats.format import SAFE, Table
from tidemark.ingest import books
from tidemark.ingest.books import Books
from tidemark.spark.machine import side_by_side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The property of the ledger with the time of the last maintenance of all tables.
_MAINTAINED = "tidemark.maintained_at"
_WIDEST = 40


@dataclass(frozen=True)
class Policy:
    """When to maintain, and how long to keep what. `every` is None if no run maintains."""

    every: timedelta | None = None
    # None leaves it to the table: its delta.deletedFileRetentionDuration, or 7 days.
    vacuum_after: timedelta | None = None
    keep_runs: timedelta = timedelta(days=365)
    force: bool = False


@dataclass
class _Done:
    before: Table
    after: Table
    deleted: int
    # None if the format does not tell.
    freed: int | None
    seconds: float


def policy(vacuum_after: str | None = None, *, force: bool = False) -> Policy:
    """The project's policy, `vars: tidemark: maintain:`. The arguments are of the command line.

    Raises ConfigError if it is wrong, or deletes files earlier than is safe without `force`.
    """
    told = project.policy() or {}
    known = ("every", "vacuum_after", "keep_runs")
    for name in told:
        if name not in known:
            raise ConfigError(
                f"dbt_project.yml: maintain has no setting '{name}'. It has {', '.join(known)}."
            )
    if vacuum_after:
        told["vacuum_after"] = vacuum_after
    spans = {}
    for name, value in told.items():
        try:
            spans[name] = feed_values.span(value)
        except ValueError:
            raise ConfigError(
                f"maintain: {name} must be such as '7 days' or '36 hours', not '{value}'."
            ) from None
    wanted = Policy(**spans, force=force)
    if wanted.vacuum_after is not None and wanted.vacuum_after < SAFE and not force:
        raise ConfigError(
            f"maintain: vacuum_after is '{told['vacuum_after']}'. Less than 7 days is not safe: a "
            "query or a run may still read the files, and `tidemark restore` cannot go back "
            "further. If you are sure: tidemark maintain --vacuum-after ... --force"
        )
    return wanted


def is_due(own: Books, wanted: Policy) -> bool:
    """Whether a run must maintain: the project's policy says so, and its time has come."""
    if wanted.every is None:
        return False
    last = own.properties(books.LEDGER).get(_MAINTAINED)
    return last is None or datetime.now(UTC) - datetime.fromisoformat(last) >= wanted.every


def maintain(names: Sequence[str], wanted: Policy, *, dry_run: bool = False) -> None:
    """Maintain these tables, or all, and report it; `dry_run` only reports what is due.

    Raises ConfigError for an unknown table, and TidemarkError, after the others are done, if some
    tables failed.
    """
    parsed = project.current()
    chosen = _maintained(relations(parsed, names), print)
    own = books.without_spark()
    if own is None and dry_run and books.needs_spark():
        own = _by_spark()
    if own is None and (dry_run or not books.needs_spark()):
        print(f"Nothing has landed in {paths.lake_dir()} yet: tidemark run")
        return
    looks = _looks(chosen, wanted)
    due = [table for table in looks.values() if table and table.is_due]
    # Of these, nothing is known without Spark.
    unseen = [table for table in due if not table.files]
    logs = [feed for feed in parsed.feeds if feed.log_relation in chosen]
    cuts = retention.due(own, logs) if own else []
    old_runs = _old_runs(own, wanted) if own and not names else 0
    if own and (dry_run or not (due or old_runs or cuts)):
        if len(due) > len(unseen):
            print(_planned(table for table in due if table.files))
        if unseen:
            print(
                f"{report.counted(len(unseen), 'table')}: only Spark can tell, without --dry-run."
            )
        if old_runs:
            print(f"{report.counted(old_runs, 'row')} of tidemark.runs would be deleted.")
        retention.cut_logs(own, parsed, cuts, print, dry_run=True)
        if not due and not old_runs and not cuts:
            print(f"Nothing to do for {report.counted(len(chosen), 'table')}.")
        return
    from tidemark.spark import lease, session

    _suited(looks)
    spark = session.get()
    with lease.held(spark):
        if any(feed.keep_changes for feed in logs):
            own = books.of(spark)
            retention.cut_logs(own, parsed, retention.due(own, logs), print)
            # A cut leaves old files.
            looks = _looks(chosen, wanted)
        _maintain(spark, looks, wanted, print)
        if not names:
            _forget(spark, wanted, print)


def _by_spark() -> Books | None:
    """Tidemark's own tables where only Spark reaches them; None if nothing has landed."""
    from tidemark.spark import session

    own = books.of(session.get())
    return own if own.exists(books.RUNS) else None


def at_end_of_run(
    spark: "SparkSession", parsed: project.Project, wanted: Policy, say: Callable[[str], None]
) -> None:
    """Maintain all tables in a run, which holds the lake."""
    own = books.of(spark)
    retention.cut_logs(own, parsed, retention.due(own, parsed.feeds), say)
    _maintain(spark, _looks(_maintained(relations(parsed)), wanted), wanted, say)
    _forget(spark, wanted, say)


def relations(parsed: project.Project, names: Sequence[str] = ()) -> list[str]:
    """The relations with these names: `schema.table`, a model, or a feed. Without names, all."""
    known: dict[str, str] = {table: table for table in books.TABLES}
    for node in parsed.nodes.values():
        if node.table:
            known |= {node.table: node.table, node.name: node.table}
    for feed in parsed.feeds:
        relation = feed.log_relation
        known |= {feed.name: relation, relation: relation}
    for name in names:
        if name not in known:
            alike = difflib.get_close_matches(name, known, n=3, cutoff=0)
            raise ConfigError(
                f"No table is called '{name}'. Use a model, a feed, or schema.table, such as "
                f"{', '.join(alike)}."
            )
    return sorted({known[name] for name in names or known})


def _maintained(chosen: Sequence[str], say: Callable[[str], None] = lambda text: None) -> list[str]:
    """The tables without those that their format maintains itself, of which it says why."""
    left_out = {each: why for each in chosen if (why := formats.of(each).maintains)}
    for why in dict.fromkeys(left_out.values()):
        names = ", ".join(each for each in chosen if left_out.get(each) == why)
        say(f"Left out: {names}. {why}.")
    return [each for each in chosen if each not in left_out]


def _looks(chosen: Sequence[str], wanted: Policy) -> dict[str, Table | None]:
    looks = side_by_side(
        lambda relation: formats.of(relation).look(relation, wanted.vacuum_after), chosen
    )
    return dict(zip(chosen, looks, strict=True))


def _maintain(
    spark: "SparkSession",
    looks: dict[str, Table | None],
    wanted: Policy,
    say: Callable[[str], None],
) -> None:
    from tidemark.spark import session

    began = time.monotonic()
    failures: list[str] = []

    def work(relation: str) -> _Done | None:
        try:
            table = _seen(spark, relation, looks[relation], wanted)
            return _work(spark, table, wanted) if table and table.is_due else None
        except Exception as error:  # the other tables are maintained
            failures.append(f"{relation}: {session.readable(error)}")
            return None

    settings = (AT_ONCE if wanted.force else MAINTENANCE) | _suited(looks)
    with session.settings_during(spark, settings):
        done = list(filter(None, side_by_side(work, looks)))
    if done:
        say(_told(done))
    say(
        f"Maintained {len(done)} of {report.counted(len(looks), 'table')} "
        f"in {time.monotonic() - began:.0f} s."
    )
    if failures:
        raise TidemarkError("\n".join(["Maintenance failed:", *sorted(failures)]))


def _suited(looks: dict[str, Table | None]) -> dict[str, str]:
    from tidemark.spark import session

    return session.suited_to(table.size for table in looks.values() if table and table.is_due)


def _seen(
    spark: "SparkSession", relation: str, table: Table | None, wanted: Policy
) -> Table | None:
    """The table, by Spark if only that can tell; None if it is not built."""
    if table is None or table.old_files is None:
        return formats.of(relation).look_by_spark(spark, relation, wanted.vacuum_after)
    return table


def _work(spark: "SparkSession", table: Table, wanted: Policy) -> _Done:
    began = time.monotonic()
    format = formats.of(table.relation)
    if table.has_many_small:
        format.compact(spark, table.relation)
    deleted: tuple[int, int | None] = (0, 0)
    # With --force, also the files that have just been replaced may be old enough.
    if table.old_files != 0 or wanted.force:
        deleted = format.delete_old(spark, table.relation, wanted.vacuum_after)
    after = format.look(table.relation, wanted.vacuum_after)
    after = _seen(spark, table.relation, after, wanted) or table
    return _Done(table, after, *deleted, time.monotonic() - began)


def _old_runs(own: Books, wanted: Policy) -> int:
    found = own.read(books.RUNS, ("at",), _is_before(_begin_of_runs(wanted)))
    return sum(batch.num_rows for batch in found)


def _begin_of_runs(wanted: Policy) -> datetime:
    return datetime.now(UTC) - wanted.keep_runs


def _is_before(begin: datetime) -> str:
    return f"at < timestamp '{begin:%Y-%m-%d %H:%M:%S}'"


def _forget(spark: "SparkSession", wanted: Policy, say: Callable[[str], None]) -> None:
    """Delete what is too old in tidemark.runs and tidemark.log, and note the maintenance."""
    own, begin = books.of(spark), _begin_of_runs(wanted)
    old = _old_runs(own, wanted)
    if old:
        spark.sql(f"delete from {books.RUNS} where {_is_before(begin)}")
        say(f"Deleted {report.counted(old, 'row')} of tidemark.runs.")
    report.forget(begin)
    own.set_property(books.LEDGER, _MAINTAINED, datetime.now(UTC).isoformat(timespec="seconds"))


def _planned(due: Iterable[Table]) -> str:
    rows = [
        (
            table.relation,
            table.files,
            size_of(table.size),
            "yes" if table.has_many_small else "",
            table.old_files,
        )
        for table in due
    ]
    return _table(rows, ["table", "files", "size", "compact", "old files"])


def _told(done: Iterable[_Done]) -> str:
    rows = [
        (
            each.before.relation,
            each.before.files,
            each.after.files,
            size_of(each.before.size),
            size_of(each.after.size),
            each.deleted,
            "" if each.freed is None else size_of(each.freed),
            f"{each.seconds:.1f}",
        )
        for each in done
    ]
    headers = ["table", "files", "after", "size", "after", "deleted", "freed", "seconds"]
    return _table(rows, headers)


def _table(rows: Sequence[Sequence[Any]], headers: Sequence[str]) -> str:
    widths = [_WIDEST, *[None] * (len(headers) - 1)]
    return tabulate(rows, headers=headers, maxcolwidths=widths, disable_numparse=True)


def size_of(count: float) -> str:
    """A number of bytes for people: `12 kB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
