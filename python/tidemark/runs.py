"""`tidemark run`: land what is new, build what is due, remember what was built.

A run that finds nothing to do says so within a second: until then neither Spark nor dbt is
imported, so what needs them is imported late.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidemark import outcome, paths, report, storage, targets
from tidemark.dbt_plugin import project
from tidemark.errors import ConfigError, TidemarkError
from tidemark.feeds import Feed
from tidemark.ingest import books, ledger, planning
from tidemark.ingest.landed import Landed
from tidemark.spark import lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.aws import catalog

# Set to `glue`, the end of every run registers tables in AWS's Data Catalog.
CATALOG_VARIABLE = "TIDEMARK_CATALOG"


class TablesFailedError(TidemarkError):
    """Tables could not be landed; the others were landed and built."""


def run(
    *,
    say: Callable[[str], None] = print,
    build: bool = True,
    build_all: bool = False,
    verbose: bool = False,
    replay: Sequence[str] | None = None,
) -> list[Landed]:
    """Land, and unless told otherwise build; gives what landed.

    A model is built when a feed above it has a newer load than it was built from, when it or what
    it depends on has changed, and when it or a test of it failed: so a run which died is made
    good by the next. What only concerns feeds of which no file has ever landed is left out;
    `build_all` builds everything. With `verbose` dbt prints its own lines, too.
    `replay` names tables whose files with open dead letters are read again; none means all.
    Raises TablesFailedError, after the others are done, when tables could not be landed. With
    TIDEMARK_CATALOG tables are registered at the end, and what goes wrong there is raised then.
    """
    run_id = new_run_id()

    with outcome.published(run_id) as lines:

        def tell(text: str) -> None:
            say(text)
            report.log(run_id, text)
            lines.append(text)

        tell(f"Run {run_id}")
        if replay is None and not build_all and not registers():
            idle = _idle(build)
            if idle is not None:
                _tell_landed(idle, tell)
                if build:
                    tell(_NOTHING_TO_BUILD)
                return idle
        return _at_work(run_id, tell, build, build_all, verbose, replay)


_NOTHING_TO_BUILD = "Nothing to build: every table has its newest load."


def new_run_id() -> str:
    """TIDEMARK_RUN_ID when an orchestrator gives one, else the UTC time and the process."""
    given = os.environ.get("TIDEMARK_RUN_ID")
    return given or f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}"


def registers() -> bool:
    """Whether the end of a run registers its tables. Raises ConfigError for an unknown catalog."""
    named = os.environ.get(CATALOG_VARIABLE, "")
    if named not in ("", "glue"):
        raise ConfigError(f"{CATALOG_VARIABLE} is '{named}': it must be glue, or not be set.")
    return bool(named)


def _idle(build: bool) -> list[Landed] | None:
    """What there is to tell when nothing is to be done; None when something is, or may be."""
    if targets.method() != "session" or "://" in paths.landing():
        return None
    known = project.cached()
    own = books.without_spark()
    if known is None or own is None:
        return None
    lock.hold(paths.lake_dir())
    work, book = planning.of_landing_folder(own, known.feeds)
    if any(plan or landed.failure or book.retracting(landed.feed) for landed, plan in work):
        return None
    if build and known.due(book.newest_loads, project.read_built(own)):
        return None
    return [landed for landed, _ in work]


def _at_work(
    run_id: str,
    tell: Callable[[str], None],
    build: bool,
    build_all: bool,
    verbose: bool,
    replay: Sequence[str] | None,
) -> list[Landed]:
    from tidemark.spark import lease, session

    with ThreadPoolExecutor(1) as beside:
        # dbt takes as long to import as Spark's Java to start.
        beside.submit(import_module, "tidemark.dbt_plugin.dbt")
        session.suited_to(_new_bytes())
        spark = session.get()
    from tidemark.dbt_plugin import dbt

    stamp = project.stamp()
    manifest = dbt.parse()
    parsed = project.of(manifest)
    project.keep(parsed, manifest, stamp)
    registration = _registration(manifest)
    with lease.held(spark), _registered(spark, registration, tell):
        landed, has_built = _run(spark, parsed, run_id, tell, build, build_all, verbose, replay)
        if registration:
            registration.was_idle = not has_built and not any(each.is_new for each in landed)
        failed = [each.feed.name for each in landed if each.failure]
        if failed:
            names = ", ".join(failed)
            text = f"{len(failed)} of {len(landed)} tables failed, see above: {names}."
            report.log(run_id, text)
            raise TablesFailedError(text)
    return landed


def _new_bytes() -> int:
    """Bytes of the files in a local landing folder that the ledger does not know."""
    if targets.method() != "session" or "://" in paths.landing():
        return 0
    lock.hold(paths.lake_dir())
    return planning.new_bytes(books.without_spark())


def _registration(manifest: Any) -> "catalog.AtEnd | None":
    """What registers the tables at the end, None where nothing does. Raises ConfigError."""
    if not registers():
        return None
    from tidemark.aws import catalog
    from tidemark.dbt_plugin import dbt

    registration = catalog.AtEnd(dbt.nodes(manifest))
    catalog.begin()
    return registration


@contextmanager
def _registered(
    spark: "SparkSession", registration: "catalog.AtEnd | None", tell: Callable[[str], None]
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
    spark: "SparkSession",
    parsed: project.Project,
    run_id: str,
    tell: Callable[[str], None],
    build: bool,
    build_all: bool,
    verbose: bool,
    replay: Sequence[str] | None,
) -> tuple[list[Landed], bool]:
    """Land and build; gives what landed, and whether anything was built."""
    from tidemark.ingest import landing

    if replay is not None:
        _ask_to_replay(spark, parsed.feeds, replay, run_id, tell)
    with report.progress(tell, "Landing", "files") as progress:
        folder = storage.landing_folder()
        landed = landing.land(
            spark, parsed.feeds, folder, run_id=run_id, progress=progress, retracts=build
        )
    _tell_landed(landed, tell)
    has_built = build and _build(
        spark, parsed, landed, run_id, tell, build_all=build_all, verbose=verbose
    )
    return landed, has_built


def _tell_landed(landed: Sequence[Landed], tell: Callable[[str], None]) -> None:
    tell(report.one_line(landed))
    if any(entry.is_new for entry in landed):
        tell(report.table(landed))
    for remark in report.remarks(landed):
        tell(remark)


def _build(
    spark: "SparkSession",
    parsed: project.Project,
    landed: Sequence[Landed],
    run_id: str,
    tell: Callable[[str], None],
    *,
    build_all: bool,
    verbose: bool,
) -> bool:
    """Build what is due, but not what depends on tables that failed to land; tells if any was."""
    from tidemark.dbt_plugin import dbt

    own = books.of(spark)
    newest = ledger.read(own, {}).newest_loads
    built = project.read_built(own)
    failed = [entry.feed.name for entry in landed if entry.failure]
    blocked = parsed.below(parsed.sources_of(failed))
    retracted = [entry for entry in landed if entry.retracted and not entry.failure]
    anew = parsed.below(parsed.sources_of([entry.feed.name for entry in retracted]))
    due = parsed.due(newest, built) | {name for name in anew if parsed.nodes[name].select}
    due -= blocked
    if not due and not build_all:
        tell(_NOTHING_TO_BUILD)
        return False
    buildable = {name for name, node in parsed.nodes.items() if node.select}
    idle = set() if build_all else parsed.idle(newest)
    select: list[str] = []
    if build_all:
        tell("Building everything.")
    elif due == buildable - idle - blocked:
        of_load = _of_load(parsed, due, newest, built)
        tell(f"Building {of_load or 'everything that has files'}.")
    else:
        select = sorted(parsed.nodes[name].select for name in due)
        # For the tests of the logs that they read.
        read = {parent for name in due for parent in parsed.nodes[name].parents}
        select += sorted(
            f"source:{node.feed}" for name in read if (node := parsed.nodes[name]).feed
        )
        names = sorted(name.rsplit(".", 1)[-1] for name in due)
        some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        tell(f"Building {_of_load(parsed, due, newest, built) or some}.")
    exclude = [f"source:{name}+" for name in failed]
    if not select:
        exclude += sorted(_selector(parsed.nodes[name]) for name in idle)
    results: list[Any] = []
    began = time.monotonic()
    try:
        with report.progress(tell, "Building", "models and tests") as progress:
            dbt.build(
                run_id,
                select=select,
                exclude=exclude,
                verbose=verbose,
                full_refresh=bool(retracted),
                results=results,
                progress=progress,
            )
        done_with = [(each.feed, *pair) for each in retracted for pair in each.retracted]
        ledger.write_retracted(own, done_with, run_id)
    finally:
        done = dbt.succeeded(results) & parsed.nodes.keys()
        fallen = {name: each for name, each in built.items() if name not in dbt.failed(results)}
        project.write_built(own, {**fallen, **parsed.built_from(done, newest)}, run_id)
        for line in report.built(results, time.monotonic() - began):
            tell(line)
    return True


def _of_load(
    parsed: project.Project,
    due: Collection[str],
    newest: Mapping[str, int],
    built: Mapping[str, project.Built],
) -> str:
    """The feeds, in words, whose new loads all of these nodes are due for; '' otherwise."""
    of_load = {
        parsed.nodes[parent].feed
        for name in due
        for parent in parsed.nodes[name].parents
        if name in built and newest.get(parsed.nodes[parent].feed, 0) > built[name].load_id
    }
    if parsed.below(parsed.sources_of(of_load)).issuperset(due):
        return f"what depends on {', '.join(sorted(of_load))}"
    return ""


def _selector(node: project.Node) -> str:
    return node.select or f"source:{node.feed}"


def _ask_to_replay(
    spark: "SparkSession",
    feeds: Sequence[Feed],
    names: Sequence[str],
    run_id: str,
    tell: Callable[[str], None],
) -> None:
    known = [feed.name for feed in feeds]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"No feed is called {', '.join(unknown)}: there are {', '.join(known)}.")
    books.of(spark).create()
    asked = [feed for feed in feeds if not names or feed.name in names]
    found = ledger.replay(spark, asked, run_id)
    tell(f"{len(found)} files with open dead letters are read again.")
