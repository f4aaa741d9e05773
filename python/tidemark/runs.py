"""`tidemark run`: land what is new, build what depends on it, remember what was built."""

from collections.abc import Callable
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from tidemark import dbt, landing, ledger, paths, report, session
from tidemark.feeds import Feed
from tidemark.landing import Landed


def run(
    *, say: Callable[[str], None] = print, build_all: bool = False, quiet: bool = False
) -> list[Landed]:
    """Land and build; gives what landed.

    A table is built when it has a load that dbt has not built, so that a run which died is made
    good by the next. A changed project is built as a whole, and so is everything on `build_all`.
    """
    run_id = landing.new_run_id()
    say(f"Run {run_id}")
    manifest = dbt.parse()
    feeds = dbt.feeds(manifest)
    project = dbt.fingerprint(manifest)
    spark = session.get()
    landed = landing.land(spark, feeds, paths.landing_dir(), run_id=run_id)
    for entry in landed:
        if entry.note:
            say(f"{entry.feed.name}: {entry.note}")
        if entry.rejected and entry.feed.format == "extract":
            say(
                f"{entry.feed.name}: an extract with rejected rows deletes nothing; what it lacks "
                "is deleted by the next whole one"
            )
    say(report.one_line(landed))
    if any(entry.files or entry.set_aside for entry in landed):
        say(report.table(landed))
    newest = _newest_loads(spark)
    loads, changed = _pending(spark, feeds, newest, project)
    if changed or build_all:
        say("Building everything" + ("." if build_all else ": the project has changed."))
        dbt.build(quiet=quiet)
    elif loads:
        say(f"Building what depends on {', '.join(sorted(loads))}.")
        dbt.build([f"source:{name}+" for name in sorted(loads)], quiet=quiet)
    else:
        say("Nothing to build: every table has its newest load.")
        return landed
    _remember(spark, feeds, newest, project, run_id)
    return landed


def _newest_loads(spark: SparkSession) -> dict[str, int]:
    rows = spark.sql(
        "select source_name, table_name, max(load_id) as load_id "
        f"from {ledger.LEDGER} where status = 'landed' group by source_name, table_name"
    ).collect()
    return {f"{row.source_name}.{row.table_name}": row.load_id for row in rows}


def _pending(
    spark: SparkSession, feeds: list[Feed], newest: dict[str, int], project: str
) -> tuple[set[str], bool]:
    """The tables with a load that is not built, and whether the project has changed."""
    built = {
        f"{row.source_name}.{row.table_name}": (row.load_id, row.project)
        for row in spark.sql(
            "select source_name, table_name, max_by(load_id, at) as load_id, "
            f"max_by(project, at) as project from {ledger.BUILDS} "
            "group by source_name, table_name"
        ).collect()
    }
    pending = {
        feed.name for feed in feeds if newest.get(feed.name, 0) > built.get(feed.name, (0, ""))[0]
    }
    changed = any(built.get(feed.name, (0, ""))[1] != project for feed in feeds)
    return pending, changed


def _remember(
    spark: SparkSession, feeds: list[Feed], newest: dict[str, int], project: str, run_id: str
) -> None:
    now = datetime.now(UTC)
    rows = [
        (feed.source, feed.table, newest.get(feed.name, 0), project, run_id, now) for feed in feeds
    ]
    frame = spark.createDataFrame(rows, ledger.TABLES[ledger.BUILDS])
    frame.coalesce(1).write.format("delta").mode("append").saveAsTable(ledger.BUILDS)
