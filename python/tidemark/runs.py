"""`tidemark run`: land what is new, build what depends on it, remember what was built."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from tidemark import dbt, hook, landing, lease, ledger, outcome, report, session, storage
from tidemark.errors import ConfigError, TidemarkError
from tidemark.feeds import Feed
from tidemark.landing import Landed

if TYPE_CHECKING:
    from tidemark.aws import catalog


class TablesFailedError(TidemarkError):
    """Tables could not be landed; the others were landed and built."""


def run(
    *,
    say: Callable[[str], None] = print,
    build: bool = True,
    build_all: bool = False,
    quiet: bool = False,
    replay: Sequence[str] | None = None,
) -> list[Landed]:
    """Land, and unless told otherwise build; gives what landed.

    A table is built when it has a load that dbt has not built, so that a run which died is made
    good by the next. A changed project is built as a whole, without what only concerns feeds of
    which no file has ever landed; `build_all` builds that, too.
    `replay` names tables whose files with open dead letters are read again; none means all.
    Raises TablesFailedError, after the others are done, when tables could not be landed. With
    TIDEMARK_CATALOG tables are registered at the end, and what goes wrong there is raised then.
    """
    run_id = landing.new_run_id()

    with outcome.published(run_id) as lines:

        def tell(text: str) -> None:
            say(text)
            report.log(run_id, text)
            lines.append(text)

        manifest = dbt.parse()
        registration = _registration(manifest)
        spark = session.get()
        with lease.held(spark), _registered(spark, registration, tell):
            landed, has_built = _run(spark, manifest, run_id, tell, build, build_all, quiet, replay)
            if registration:
                registration.was_idle = not has_built and not any(each.is_new for each in landed)
            failed = [each.feed.name for each in landed if each.failure]
            if failed:
                names = ", ".join(failed)
                text = f"{len(failed)} of {len(landed)} tables failed, see above: {names}."
                report.log(run_id, text)
                raise TablesFailedError(text)
        return landed


def _registration(manifest: Any) -> "catalog.AtEnd | None":
    """What registers the tables at the end, None where nothing does. Raises ConfigError."""
    if not hook.registers():
        return None
    # Imported late, as in hook.py: few use it.
    from tidemark.aws import catalog

    registration = catalog.AtEnd(dbt.nodes(manifest))
    catalog.begin()
    return registration


@contextmanager
def _registered(
    spark: SparkSession, registration: "catalog.AtEnd | None", tell: Callable[[str], None]
) -> Iterator[None]:
    """Whatever becomes of the run in here, its tables are registered, and both failures told."""
    try:
        yield
    except TidemarkError as error:
        if registration:
            try:
                registration.register(spark, tell)
            except TidemarkError as other:
                raise type(error)(f"{error}\n{other}") from error
        raise
    if registration:
        registration.register(spark, tell)


def _run(
    spark: SparkSession,
    manifest: Any,
    run_id: str,
    tell: Callable[[str], None],
    build: bool,
    build_all: bool,
    quiet: bool,
    replay: Sequence[str] | None,
) -> tuple[list[Landed], bool]:
    """Land and build; gives what landed, and whether anything was built."""
    feeds = dbt.feeds(manifest)
    tell(f"Run {run_id}")
    if replay is not None:
        _ask_to_replay(spark, feeds, replay, run_id, tell)
    with report.progress(tell) as progress:
        folder = storage.landing_folder()
        landed = landing.land(spark, feeds, folder, run_id=run_id, progress=progress)
    tell(report.one_line(landed))
    if any(entry.is_new for entry in landed):
        tell(report.table(landed))
    for remark in report.remarks(landed):
        tell(remark)
    failed = [entry.feed.name for entry in landed if entry.failure]
    has_built = build and _build(
        spark, manifest, feeds, failed, run_id, tell, build_all=build_all, quiet=quiet
    )
    return landed, has_built


def _build(
    spark: SparkSession,
    manifest: Any,
    feeds: list[Feed],
    failed: Sequence[str],
    run_id: str,
    tell: Callable[[str], None],
    *,
    build_all: bool,
    quiet: bool,
) -> bool:
    """Build what is due, but not what depends on tables that failed to land; tells if any was."""
    project = dbt.fingerprint(manifest)
    newest = _newest_loads(spark)
    loads, first, changed = _pending(spark, feeds, newest, project)
    loads -= set(failed)
    exclude = [f"source:{name}+" for name in failed]
    if build_all:
        tell("Building everything.")
        dbt.build(run_id, exclude=exclude, quiet=quiet)
    elif changed:
        tell("Building everything that has files: the project has changed.")
        dbt.build(run_id, exclude=[*exclude, *dbt.idle(manifest, feeds, newest)], quiet=quiet)
    elif loads:
        tell(f"Building what depends on {', '.join(sorted(loads))}.")
        # What a table's first models read may not be there yet: @ takes it, too.
        select = [f"@source:{name}" if name in first else f"source:{name}+" for name in loads]
        dbt.build(run_id, select=sorted(select), exclude=exclude, quiet=quiet)
    else:
        tell("Nothing to build: every table has its newest load.")
    is_due = bool(changed or build_all or loads)
    if is_due:
        _remember(
            spark, [feed for feed in feeds if feed.name not in failed], newest, project, run_id
        )
    return is_due


def _ask_to_replay(
    spark: SparkSession,
    feeds: Sequence[Feed],
    names: Sequence[str],
    run_id: str,
    tell: Callable[[str], None],
) -> None:
    known = [feed.name for feed in feeds]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"No feed is called {', '.join(unknown)}: there are {', '.join(known)}.")
    ledger.create_tables(spark)
    asked = [feed for feed in feeds if not names or feed.name in names]
    found = ledger.replay(spark, asked, run_id)
    tell(f"{len(found)} files with open dead letters are read again.")


def _newest_loads(spark: SparkSession) -> dict[str, int]:
    rows = spark.sql(
        "select source_name, table_name, max(load_id) as load_id "
        f"from {ledger.LEDGER} where status = 'landed' group by source_name, table_name"
    ).collect()
    return {f"{row.source_name}.{row.table_name}": row.load_id for row in rows}


def _pending(
    spark: SparkSession, feeds: list[Feed], newest: dict[str, int], project: str
) -> tuple[set[str], set[str], bool]:
    """The tables with a load that is not built, those never built, and if the project changed."""
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
    first = {name for name in pending if not built.get(name, (0, ""))[0]}
    return pending, first, changed


def _remember(
    spark: SparkSession, feeds: list[Feed], newest: dict[str, int], project: str, run_id: str
) -> None:
    now = datetime.now(UTC)
    rows = [
        (feed.source, feed.table, newest.get(feed.name, 0), project, run_id, now) for feed in feeds
    ]
    frame = spark.createDataFrame(rows, ledger.TABLES[ledger.BUILDS])
    frame.coalesce(1).write.format("delta").mode("append").saveAsTable(ledger.BUILDS)
