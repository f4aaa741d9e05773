"""`tidemark verify`: compare the change logs with the row counts of an AWS DMS task."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from tabulate import tabulate

from tidemark import formats, paths
from tidemark.aws import dms
from tidemark.aws.dms import TableStatistics
from tidemark.dbt_plugin import project
from tidemark.errors import TidemarkError
from tidemark.feeds import Feed
from tidemark.ingest import books
from tidemark.ingest.file_names import is_load_in_sql
from tidemark.report import counted
from tidemark.scaffold.discover import task_tables
from tidemark.spark import session

_STATES_OF_TROUBLE = ("Table error", "Table cancelled", "Table does not exist")


class DifferentError(TidemarkError):
    """The logs and the task's statistics differ."""


@dataclass
class Counts:
    """The row counts of a change log. `rejected` counts its open dead letters."""

    loaded: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    rejected: int = 0
    refused_files: int = 0


@dataclass
class Compared:
    """One table of the task: its numbers, and possible reasons for differences."""

    name: str
    lines: list[tuple[str, int, int]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Whether a number differs, or there is nothing to compare."""
        return not self.lines or any(ours != theirs for _, theirs, ours in self.lines)


def run(name: str) -> None:
    """Compare every table of a task. Raises DifferentError if one differs."""
    task, found = dms.task_and_statistics(name)
    landing = task_tables.landing_of(task, paths.landing())
    declared = project.current().feeds
    feeds = {feed.path.strip("/"): feed for feed in declared if feed.format == "dms"}
    spark = session.get()
    compared = []
    for told in sorted(found, key=lambda each: (each.schema, each.table)):
        path = task_tables.path_of(task, landing, told.schema, told.table)
        feed = feeds.pop(path, None)
        if feed is None:
            own = Compared(f"{told.schema}.{told.table}")
            own.remarks.append(
                f"no enabled table is declared at {path}. Run: tidemark discover --dms-task {name}"
            )
        else:
            own = compare(feed, told, counts_of(spark, feed))
        compared.append(own)
    known = {task_tables.path_of(task, landing, each.schema, each.table) for each in found}
    for path, feed in sorted(feeds.items()):
        if path not in known and _is_of_task(path, known):
            own = Compared(feed.name)
            own.remarks.append("the task has no such table: another task or a rule may write it")
            compared.append(own)
    for line in report(compared):
        print(line)
    different = [each.name for each in compared if each.differs]
    if not found:
        raise DifferentError(f"The task {name} has no statistics, because it has not been started.")
    if different:
        raise DifferentError(
            f"{len(different)} of {len(compared)} tables differ from what the task {name} "
            f"counted: {', '.join(different)}."
        )


def _is_of_task(path: str, known: set[str]) -> bool:
    """Whether a path is in the folder of a schema that the task writes."""
    return path.rpartition("/")[0] in {each.rpartition("/")[0] for each in known}


def report(compared: list[Compared]) -> Iterator[str]:
    """All numbers in one table, then possible reasons for differences."""
    rows = [
        (each.name, what, theirs, ours, ours - theirs or "")
        for each in compared
        for what, theirs, ours in each.lines
    ]
    if rows:
        yield tabulate(rows, ("table", "rows", "AWS DMS", "log", "difference"))
    for each in compared:
        for remark in each.remarks:
            yield f"{each.name}: {remark}"
    if compared and not any(each.differs for each in compared):
        yield f"All {len(compared)} tables match the counts of AWS DMS."


def compare(feed: Feed, told: TableStatistics, ours: Counts) -> Compared:
    """Compare the numbers of one table."""
    found = Compared(feed.name)
    found.lines.append(("full load", told.loaded, ours.loaded))
    changes = [
        ("inserts", told.inserts, ours.inserts),
        ("updates", told.updates, ours.updates),
        ("deletes", told.deletes, ours.deletes),
    ]
    if _says_operations(feed):
        found.lines += changes
    else:
        # An update in the log may be another operation in the source.
        sums = (sum(each[1] for each in changes), sum(each[2] for each in changes))
        found.lines.append(("changes", *sums))
    if told.state in _STATES_OF_TROUBLE:
        found.remarks.append(f"state in AWS DMS: {told.state}")
    if told.load_errors:
        found.remarks.append(f"AWS DMS could not load {told.load_errors} of its rows")
    if found.differs:
        found.remarks += _reasons(found, ours)
    return found


def _says_operations(feed: Feed) -> bool:
    return feed.op_in_changes and not (feed.delete_when or feed.truncate_when or feed.operations)


def _reasons(found: Compared, ours: Counts) -> Iterator[str]:
    if ours.rejected or ours.refused_files:
        numbers = ((ours.rejected, "row"), (ours.refused_files, "complete file"))
        some = " and ".join(counted(number, what) for number, what in numbers if number)
        is_one = ours.rejected + ours.refused_files == 1
        letters = "has an open dead letter" if is_one else "have open dead letters"
        yield f"{some} {letters}. Fix the cause, then run: tidemark replay"
    if any(here < there for _, there, here in found.lines):
        yield (
            "the log has fewer rows: files may not have landed yet (tidemark land), or AWS DMS may "
            "not have written them yet (CdcMaxBatchInterval, CdcMinFileSize)"
        )
    if any(here > there for _, there, here in found.lines):
        yield (
            "the log has more rows: AWS DMS resets its counts when a task is restarted or a table "
            "is reloaded, and writes some changes twice when it resumes"
        )


# --- the log --------------------------------------------------------------------------------------


def counts_of(spark: SparkSession, feed: Feed) -> Counts:
    """The row counts of a feed's log: the newest full load, and each change once.

    A file that was written again or replayed is in the log once per load. An update that changed
    the key is in the log as a delete and an insert with the same position.
    """
    found = Counts()
    if spark.catalog.tableExists(feed.log):
        row = spark.sql(_counts(feed)).collect()[0]
        found = Counts(*(int(count or 0) for count in row))
    if spark.catalog.tableExists(books.DEAD_LETTER):
        is_open = f"{books.is_of(feed)} and superseded_by is null"
        open_ones = spark.table(books.DEAD_LETTER).where(is_open)
        row = open_ones.selectExpr(
            "count(distinct if(position is null, null, struct(file, position)))",
            "count(distinct if(position is null, file, null))",
        ).collect()[0]
        found.rejected, found.refused_files = row
    return found


def _counts(feed: Feed) -> str:
    return f"""
    with changes as (
        select
            {formats.of_lake().file_column} as file,
            _position,
            _load_id,
            _is_initial,
            _file_at,
            _op
        from {feed.log}
        where _position > 0
    ),

    places as (
        select
            file,
            _position,
            _load_id,
            {is_load_in_sql("file")} as is_load,
            if(bool_or(_is_initial), null, max(_file_at)) as reloaded_at,
            if(count(distinct _op) > 1, 'U', max(_op)) as op
        from changes
        group by file, _position, _load_id
    ),

    newest as (
        select
            is_load,
            max_by(reloaded_at, _load_id) as reloaded_at,
            max_by(op, _load_id) as op
        from places
        group by file, _position, is_load
    ),

    generation as (
        select max(reloaded_at) as reloaded_at from newest where is_load
    )

    select
        count_if(is_load and newest.reloaded_at <=> generation.reloaded_at),
        count_if(not is_load and op = 'I'),
        count_if(not is_load and op = 'U'),
        count_if(not is_load and op in ('D', 'T'))
    from newest cross join generation
    """
