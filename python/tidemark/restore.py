"""`tidemark restore`: put a current or history table back to an earlier version.

The table's format does the work. The next run applies what came after, since a build's watermark is
the newest load in the table. Each commit has the id of its run, so the table's history says which
version a run left.
"""

import difflib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from tabulate import tabulate

from tidemark import formats, maintain, report, retention, runs
from tidemark.dbt_plugin import project
from tidemark.errors import ConfigError, TidemarkError, printable
from tidemark.ingest import books, ledger
from tidemark.spark import lease, session


def show(model: str) -> None:
    """Print the versions of a table, with their runs."""
    parsed = project.current()
    versions = _versions(session.get(), parsed.nodes[_node(parsed, model)].table)
    rows = [
        (row["version"], report.time_of(row["timestamp"]), row["operation"], row["userMetadata"])
        for row in versions
    ]
    table = tabulate(rows, headers=["version", "time (UTC)", "operation", "run"])
    print(printable(table, keep="\n"))


def restore(model: str, point: str) -> None:
    """Restore the table to the version that a run left, or that was there at a time.

    Raises ConfigError, before anything changes, if there is no such table or version, or if a file
    was retracted since; TidemarkError if the version's files were deleted.
    """
    parsed = project.current()
    name = _node(parsed, model)
    relation = parsed.nodes[name].table
    spark = session.get()
    with lease.held(spark):
        own = books.of(spark)
        version = _version(own, _versions(spark, relation), relation, point)
        _require_no_retraction(own, parsed, name, version)
        since = version["timestamp"].replace(tzinfo=UTC)
        retention.require_no_cut_since(own, parsed, name, since)
        # Before the table changes: if this process is killed in between, the next run builds more
        # than it must, and not less.
        below = parsed.below([name])
        built, results = project.read_builds(own)
        kept = {each: entry for each, entry in built.items() if each not in below}
        run_id = runs.new_run_id()
        project.write_builds(own, kept, results, run_id)
        try:
            spark.sql(formats.of(relation).restore(relation, version["version"]))
        except Exception as error:
            project.write_builds(own, built, results, run_id)
            raise TidemarkError(
                f"{relation} was not restored. If version {version['version']} is too old, or its "
                "files were deleted, rebuild the table from its log: dbt build --full-refresh "
                f"--select {model}. {session.readable(error)}"
            ) from error
    at = report.time_of(version["timestamp"])
    print(f"{relation} is as it was in version {version['version']}, of {at}.")
    print("The next run applies what came after: tidemark run")


def register() -> None:
    """Add the project's tables that are in the warehouse to a catalog that lacks them."""
    formats.move()
    spark = session.get()
    count = 0
    with lease.held(spark):
        for relation in maintain.relations(project.current()):
            if not spark.catalog.tableExists(books.quoted(relation)) and _found(spark, relation):
                print(f"{relation} is registered.")
                count += 1
    print(
        f"Registered {report.counted(count, 'table')}. The views are created by: tidemark run --all"
        if count
        else "All tables that are in the warehouse are registered."
    )


def _found(spark: SparkSession, relation: str) -> bool:
    """Register a table that is in the warehouse, or moves to another catalog. False without one."""
    format = formats.of(relation)
    registers = format.moves(spark, relation) or format.registers(relation)
    if registers:
        *catalog, schema, _ = relation.split(".")
        for each in ("", *(f"{name}." for name in catalog)):
            spark.sql(f"create schema if not exists {each}`{schema}`")
        spark.sql(registers)
    return bool(registers)


def _node(parsed: project.Project, model: str) -> str:
    """The id of the model with this name."""
    known = {node.name: name for name, node in parsed.nodes.items() if node.table}
    if model not in known:
        alike = difflib.get_close_matches(model, known, n=3, cutoff=0)
        raise ConfigError(f"No model is called '{model}'. Similar ones: {', '.join(alike)}.")
    return known[model]


def _versions(spark: SparkSession, relation: str) -> Sequence[Any]:
    """The versions of a current or history table, the newest first."""
    if not spark.catalog.tableExists(books.quoted(relation)):
        raise ConfigError(f"{relation} is not built yet: tidemark run")
    properties = spark.sql(f"show tblproperties {books.quoted(relation)}").collect()
    if books.DERIVED not in {row["key"] for row in properties}:
        raise ConfigError(
            f"{relation} is neither a current nor a history table, so no run would apply what came "
            f"after. It can be restored by hand: {formats.of(relation).restore(relation, '...')}"
        )
    return spark.sql(formats.of(relation).versions(relation)).collect()


def _version(own: books.Books, versions: Sequence[Any], relation: str, point: str) -> Any:
    """The version that was there after this run, or at this time. See the macro `as_of_run`."""
    of_run = [row for row in versions if row["userMetadata"] == point]
    if of_run:
        return of_run[0]
    at = _time_of_run(own, point)
    if at and not formats.of(relation).commits_tell(point):
        raise ConfigError(
            f"With this Spark version, the versions of {relation} do not name their runs. Restore "
            "it to a time: tidemark restore without --to lists the versions."
        )
    at = at or _time(point)
    if at is None:
        runs = list(dict.fromkeys(row["userMetadata"] for row in versions if row["userMetadata"]))
        raise ConfigError(
            f"'{point}' is neither a run that landed rows nor a time. The last runs that wrote "
            f"{relation}: {', '.join(runs[:5]) or 'none'}."
        )
    before = [row for row in versions if row["timestamp"] <= at]
    if not before:
        oldest = report.time_of(versions[-1]["timestamp"])
        raise ConfigError(f"{relation} has no version of {point}. The oldest is of {oldest}.")
    return before[0]


def _time_of_run(own: books.Books, run_id: str) -> datetime | None:
    """When a run landed rows, in UTC; it may have written other tables only."""
    is_run = "run_id = '{}'".format(run_id.replace("'", "''"))
    times = [row["at"] for row in books.rows(own.read(books.RUNS, ("at",), is_run))]
    return max(times).replace(tzinfo=None) if times else None


def _time(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at


def _require_no_retraction(
    own: books.Books, parsed: project.Project, name: str, version: Any
) -> None:
    """The old version may have rows of the file, and no run would remove them."""
    feeds = {parsed.nodes[each].feed for each in parsed.above([name])}
    columns = ("source_name", "table_name", "file", "at")
    where = f"status in ('{ledger.RETRACTING}', 'retracted')"
    since = version["timestamp"].replace(tzinfo=UTC)
    for row in books.rows(own.read(books.LEDGER, columns, where)):
        if books.table_of(row) in feeds and row["at"] > since:
            raise ConfigError(
                f"{printable(row['file'])} was retracted after version {version['version']}, which "
                "may have its rows. So nothing was restored. The table can be rebuilt from its "
                f"log: dbt build --full-refresh --select {name.rsplit('.', 1)[-1]}"
            )
