"""`tidemark run`: land new files, build what is due, remember what was built.

A run with nothing to do ends within a second: it imports neither Spark nor dbt, so this module
imports late what needs them.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from tidemark import formats, maintain, outcome, paths, report, storage, targets
from tidemark.dbt_plugin import project
from tidemark.errors import ConfigError, TidemarkError, printable
from tidemark.ingest import books, ledger, planning
from tidemark.ingest.landed import Landed
from tidemark.spark import warm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.aws import catalog

_NOTHING_TO_BUILD = "Nothing to build: every table is up to date."


class TablesFailedError(TidemarkError):
    """Tables failed to land; the others landed and were built."""


def run(
    *,
    build: bool = True,
    build_all: bool = False,
    verbose: bool = False,
    replay: Sequence[str] | None = None,
    replay_all: bool = False,
) -> list[Landed]:
    """Land, and with `build` also build; gives what landed.

    A model is due when a feed above it has a newer load than the model, when its code or that of
    its parents changed, and when it or one of its tests failed: so the next run repairs a run that
    died. Models whose feeds never had a file are left out; `build_all` builds everything. With
    `verbose` dbt also prints its own lines. `replay` names tables whose files with open dead
    letters are read again, with `replay_all` all their files; an empty list means all tables.
    Raises TablesFailedError, after the others are done, when tables failed to land. With
    TIDEMARK_CATALOG=glue the end of the run registers the tables, and raises what goes wrong.
    With a policy for it, tables are maintained after that time has come, see `maintain`.
    """
    # If it is wrong, the run says so before it lands anything.
    policy = maintain.policy()
    formats.require_catalogs()
    run_id = new_run_id()
    with outcome.published(run_id) as lines:
        this = Run(run_id, lines, build, build_all, verbose, replay, replay_all, policy)
        this.tell(f"Run {run_id}")
        idle = this.when_idle()
        if idle is not None:
            return idle
        from tidemark.spark import full_disk, session

        with full_disk.noticed(paths.lake_dir(), session.kill):
            return this.work()


def new_run_id() -> str:
    """TIDEMARK_RUN_ID when an orchestrator gives one, else the UTC time and the process."""
    given = os.environ.get("TIDEMARK_RUN_ID")
    return given or f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}"


def registers() -> bool:
    """Whether the end of a run registers its tables in AWS's Data Catalog."""
    return targets.catalog() == "glue"


@dataclass(frozen=True)
class Run:
    """One run: its id, the lines that it has printed, and its options (see `run`)."""

    id: str
    lines: list[str]
    builds: bool
    builds_all: bool
    verbose: bool
    replays: Sequence[str] | None
    replays_all: bool
    policy: maintain.Policy

    def tell(self, text: str) -> None:
        """Print lines, and keep them for the log and for the end of the run."""
        print(text)
        report.log(self.id, text)
        self.lines.append(text)

    def when_idle(self) -> list[Landed] | None:
        """Report a run with nothing to do; None when there is something to do, or may be."""
        if self.replays is not None or self.builds_all or registers() or not _is_all_local():
            return None
        known, own = project.cached(), books.without_spark()
        if known is None or own is None:
            return None
        warm.hold()
        work, book = planning.of_landing_folder(own, known.feeds)
        if any(each.plan or each.failure or book.retracting(each.feed) for each in work):
            return None
        if self.builds and known.due(book.newest_loads, project.read_builds(own)[0]):
            return None
        if self.builds and maintain.is_due(own, self.policy):
            return None
        self._tell_landed(work)
        if self.builds:
            self.tell(_NOTHING_TO_BUILD)
        return work

    def work(self) -> list[Landed]:
        """Land and build. Raises TablesFailedError when tables failed to land."""
        from tidemark.spark import lease, session

        lands_without_spark = _is_all_local() and "://" not in paths.warehouse()
        session.suited_to(_new_bytes())
        # dbt takes as long to import and to parse as Spark's Java to start.
        spark = session.later(self.tell)
        parsed, registration = _parsed()
        if not lands_without_spark:
            # Spark's start says in a sentence which place cannot be reached, delta-rs does not.
            spark = session.started(spark)
        if registration:
            from tidemark.aws import catalog

            catalog.begin()
        with lease.held(spark), self._registered(spark, registration):
            landed = self._land(spark, parsed)
            has_built = self.builds and self._build(spark, parsed, landed)
            if registration:
                registration.was_idle = not has_built and not any(each.is_new for each in landed)
            failed = [each.feed.name for each in landed if each.failure]
            if failed:
                names = ", ".join(failed)
                text = f"{len(failed)} of {len(landed)} tables failed, see above: {names}."
                report.log(self.id, text)
                raise TablesFailedError(text)
            # At the end: until here, readers would wait for newer rows.
            if self.builds and maintain.is_due(books.of(spark), self.policy):
                maintain.at_end_of_run(spark, parsed, self.policy, self.tell)
        return landed

    @contextmanager
    def _registered(
        self, spark: "SparkSession", registration: "catalog.AtEnd | None"
    ) -> Iterator[None]:
        """Register the tables at the end, also of a failed run, and raise both failures."""
        try:
            yield
        except TidemarkError as error:
            if registration:
                try:
                    registration.register(spark, self.tell)
                except TidemarkError as other:
                    raise type(error)(f"{error}\n{other}") from error
            raise
        if registration:
            registration.register(spark, self.tell)

    def _land(self, spark: "SparkSession", parsed: project.Project) -> list[Landed]:
        from tidemark.ingest import landing

        if self.replays is not None:
            self._replay(spark, parsed, self.replays)
        with report.progress(self.tell, "Landing", "files") as progress:
            landed = landing.land(
                spark,
                parsed.feeds,
                storage.landing_folder(),
                run_id=self.id,
                progress=progress,
                retracts=self.builds,
            )
        self._tell_landed(landed)
        return landed

    def _replay(self, spark: "SparkSession", parsed: project.Project, names: Sequence[str]) -> None:
        known = [feed.name for feed in parsed.feeds]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ConfigError(
                f"No feed is called {', '.join(unknown)}: there are {', '.join(known)}."
            )
        books.of(spark).create()
        asked = [feed for feed in parsed.feeds if not names or feed.name in names]
        found = ledger.replay(spark, asked, self.id, all_files=self.replays_all)
        which = "" if self.replays_all else " with open dead letters"
        self.tell(f"Reading {report.counted(len(found), 'file')}{which} again.")

    def _tell_landed(self, landed: Sequence[Landed]) -> None:
        self.tell(report.one_line(landed))
        if any(entry.is_new for entry in landed):
            self.tell(report.table(landed))
        for remark in report.remarks(landed):
            self.tell(remark)

    def _build(
        self, spark: "SparkSession", parsed: project.Project, landed: Sequence[Landed]
    ) -> bool:
        """Build what is due, except below tables that failed to land; gives whether any was."""
        from tidemark.spark import session

        own = books.of(spark)
        newest = ledger.read(own, {}).newest_loads
        failed = [entry.feed.name for entry in landed if entry.failure]
        blocked = parsed.below(parsed.sources_of(failed))
        build_nodes = partial(
            build, parsed, own, self.id, self.tell, newest=newest, verbose=self.verbose
        )
        failure: TidemarkError | None = None
        anew = set[str]()
        if retracted := [entry for entry in landed if entry.retracted and not entry.failure]:
            below = parsed.below(parsed.sources_of([entry.feed.name for entry in retracted]))
            anew = {name for name in below - blocked if parsed.nodes[name].select}
            try:
                if anew:
                    feeds = report.some(sorted(each.feed.name for each in retracted))
                    self.tell(f"Rebuilding what depends on {feeds}.")
                    session.started(spark)
                    # Nothing else: other nodes may have rows that their sources no longer have.
                    before, select = project.read_builds(own), selectors(parsed, anew)
                    build_nodes(known=before, select=select, full_refresh=True)
                # A model that is blocked still has the rows: the next run rebuilds it.
                done_with = [
                    (each.feed, *pair)
                    for each in retracted
                    if not parsed.below(parsed.sources_of([each.feed.name])) & blocked
                    for pair in each.retracted
                ]
                ledger.write(own, done_with, "retracted", self.id)
            except TidemarkError as error:
                failure = error
        known = project.read_builds(own)
        built, _ = known
        due = parsed.due(newest, built) - blocked - anew
        # These were built before what they also read.
        due |= anew & parsed.below(due)
        if failure and not due:
            raise failure
        if not due and not self.builds_all:
            if not anew:
                self.tell(_NOTHING_TO_BUILD)
            return bool(anew)
        idle = set() if self.builds_all else parsed.idle(newest)
        buildable = {name for name, node in parsed.nodes.items() if node.select}
        is_all = due == buildable - idle - blocked
        select = [] if self.builds_all or is_all else selectors(parsed, due)
        exclude = [f"source:{name}+" for name in failed]
        if not select:
            exclude += sorted(_selector(parsed.nodes[name]) for name in idle)
        if self.builds_all:
            what = "everything"
        else:
            what = _of_load(parsed, due, newest, built) or (
                "everything that has files"
                if is_all
                else report.some(sorted(name.rsplit(".", 1)[-1] for name in due))
            )
        self.tell(f"Building {what}.")
        # dbt would try a start that failed again.
        session.started(spark)
        for entry in landed:
            if entry.rows and entry.plan:
                session.read_ahead(spark, entry.feed.log, entry.plan.load_id)
                break
        build_nodes(known=known, select=select, exclude=exclude)
        if failure:
            raise failure
        return True


def build(
    parsed: project.Project,
    own: books.Books,
    run_id: str,
    tell: Callable[[str], None],
    *,
    newest: Mapping[str, int],
    known: tuple[Mapping[str, project.Built], Mapping[str, project.Result]],
    select: Sequence[str],
    exclude: Sequence[str] = (),
    verbose: bool = False,
    full_refresh: bool = False,
) -> None:
    """Build the nodes of dbt's selectors, and remember what they were built from.

    `newest` has each feed's newest load, `known` is what `project.read_builds` gave. Raises
    BuildError, with all of that done, when nodes failed.
    """
    from tidemark.dbt_plugin import dbt

    built, told = known
    results: list[Any] = []
    warnings: list[str] = []
    began = time.monotonic()
    try:
        with report.progress(tell, "Building", "models and tests") as progress:
            dbt.build(
                run_id,
                select=select,
                exclude=exclude,
                verbose=verbose,
                full_refresh=full_refresh,
                results=results,
                progress=progress,
                warn=warnings.append,
            )
    finally:
        done = dbt.succeeded(results) & parsed.nodes.keys()
        fallen = dbt.failed(results)
        kept = {name: each for name, each in built.items() if name not in fallen}
        now = {**kept, **parsed.built_from(done, newest)}
        project.write_builds(own, now, {**told, **dbt.ended(results)}, run_id)
        for warning in warnings:
            tell(printable(f"Warning: {warning}"))
        for line in report.built(results, time.monotonic() - began):
            tell(line)


def selectors(parsed: project.Project, names: Collection[str]) -> list[str]:
    """dbt's selectors of nodes, and of the logs that they read, for the tests of these."""
    read = {parent for name in names for parent in parsed.nodes[name].parents}
    feeds = {parsed.nodes[name].feed for name in read} - {""}
    return [
        *sorted(parsed.nodes[name].select for name in names),
        *sorted(f"source:{feed}" for feed in feeds),
    ]


def _is_all_local() -> bool:
    """Whether this process reaches both the lake and the landing folder without Spark.

    A job in a host's Spark does not: its tables are where the host has them.
    """
    return not books.needs_spark() and "://" not in paths.landing()


def _new_bytes() -> list[int]:
    """Bytes of new files in each folder below a local landing folder."""
    if not _is_all_local():
        return []
    warm.hold()
    return planning.new_bytes(books.without_spark())


def _parsed() -> tuple[project.Project, "catalog.AtEnd | None"]:
    """The project, and what registers its tables at the end, if that is configured.

    Raises ConfigError when dbt cannot parse the project.
    """
    # Also for a cached project: the import takes seconds, and Java starts meanwhile.
    from tidemark.dbt_plugin import dbt

    if not registers():
        return project.current(), None
    parsed, manifest = project.parse()
    from tidemark.aws import catalog

    return parsed, catalog.AtEnd(dbt.nodes(manifest))


def _of_load(
    parsed: project.Project,
    due: Collection[str],
    newest: Mapping[str, int],
    built: Mapping[str, project.Built],
) -> str:
    """`what depends on ...`, when new loads of feeds are why all nodes are due; '' otherwise."""
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
