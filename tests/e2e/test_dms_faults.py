"""Faults between AWS DMS (dms.py) and Tidemark, one at a time: afterwards the lake is right."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.aws_server import AwsServer
from tests.e2e import clients, dms, postgres, truth
from tests.e2e.dms import deliver, reach
from tests.e2e.stage import SEED, Lake, Replica, now
from tests.e2e.test_dms import declare
from tests.e2e.test_postgres import SCHEMA
from tests.project import Project

pytestmark = [pytest.mark.e2e, pytest.mark.functional, pytest.mark.slow]

TASKS = (
    dms.Task("whole", ("customer", "member"), schema="faults_whole"),
    dms.Task(
        "text", ("venue",), schema="faults_text", parquet=False, null="<null>", op_in_load=False
    ),
    dms.Task(
        "bare",
        ("orders",),
        schema="faults_bare",
        parquet=False,
        has_names=False,
        op_in_load=False,
        has_time=False,
        has_sequence=False,
        has_images=False,
    ),
)


@dataclass
class Faults:
    """Everything that is running."""

    source: postgres.Postgres
    captures: list[dms.Capture]
    lake: Lake
    folder: Path
    start: int
    turn: int = 0

    def work(self, seconds: int = 6) -> None:
        """Clients work; what they did has left the captures then."""
        self.turn += 1
        work = clients.working(
            self.source, self.folder, seconds, 30, SEED + self.turn, without={"truncate"}
        )
        with work as running:
            clients.finish(running)

    def reach(self) -> None:
        reach(self.source, self.captures, self.turn)

    def waiting(self) -> list[Path]:
        """Files that are not delivered."""
        return sorted((self.folder / "outbox").rglob("[!.]*.*"))

    def deliver(self, *files: Path) -> None:
        """Deliver these files, or all."""
        outbox = self.folder / "outbox"
        for file in files or self.waiting():
            target = self.lake.project.landing / file.relative_to(outbox)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.rename(target)

    def check(self, *, histories: bool = True) -> None:
        """The lake equals the source."""
        self.deliver()
        self.lake.tidemark("run")
        replica = self.lake.replica
        self.lake.compare(self.lake.contents())
        lines = replica.differences(-1)
        self.lake.look_at_lake()
        if histories:
            for name, table in replica.relations():
                if "_bare__" not in name:
                    versions = truth.versions(self.source, table, self.start)
                    replica.expected_versions[name] = versions
            lines += replica.differences_of_versions()
        assert not lines, "\n".join(lines[:40])


@pytest.fixture(scope="module")
def faults(
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    module_project: Callable[[], Project],
    _aws: AwsServer,
) -> Iterator[Faults]:
    postgres.require()
    has_clock = postgres.faketime() is not None
    with postgres.running(has_clock=has_clock) as source, ExitStack() as stack:
        folder = tmp_path_factory.mktemp("faults")
        captures = [dms.Capture(task, source, folder / "outbox") for task in TASKS]
        for capture in captures:
            stack.callback(capture.stop)
        lake = Lake(
            source, module_project(), Replica({}), lambda table: truth.content(source, table)
        )
        source.sql(SCHEMA.read_text())
        source.sql("alter table ticketing.customer replica identity full")
        tables = {name: dms.captured(table, ()) for name, table in truth.tables(source).items()}
        lake.replica.tables = tables
        running = Faults(source, captures, lake, folder, truth.last_change(source))
        for capture in captures:
            capture.prepare()
        read_from = now()
        for capture in captures:
            capture.start()
        running.work()
        for capture in captures:
            capture.wait(capture.has_changes, "changes of each table")
        lake.replica.snapshot = (read_from, now())
        running.reach()
        for capture in captures:
            deliver(capture, lake.project.landing)
        declare(lake, _aws, TASKS[1])
        lake.tidemark("run")
        yield running


def test_files_arrive_late_and_out_of_order(faults: Faults) -> None:
    faults.work()
    faults.reach()
    files = faults.waiting()
    faults.deliver(*random.Random(SEED).sample(files, len(files) // 2))
    faults.lake.tidemark("run")
    faults.check()


def test_a_half_written_file_is_completed(faults: Faults) -> None:
    faults.work()
    faults.reach()
    torn = {}
    for capture in faults.captures:
        file = next(it for it in faults.waiting() if capture.task.name in it.parts)
        content = torn[file] = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
    faults.deliver()
    faults.lake.tidemark("run")
    time.sleep(0.01)
    for file, content in torn.items():
        file.write_bytes(content)
    faults.check()
    # Only of these files was something refused.
    dead = faults.lake.replica.dead_letters
    assert all(any(file.name in line for file in torn) for line in dead), dead


def test_the_clock_that_names_files_goes_back_an_hour(faults: Faults) -> None:
    """With a change sequence that makes no difference. Without one, the names are the order."""
    for capture in faults.captures[:2]:
        capture.clock = timedelta(hours=-1)
    faults.work()
    faults.reach()
    for capture in faults.captures:
        capture.clock = timedelta()
    faults.deliver()
    faults.work()
    faults.reach()
    faults.check()


@pytest.mark.skipif(not postgres.faketime(), reason="Debian's faketime is not installed")
def test_the_clock_of_the_database_is_an_hour_ahead_for_a_while(faults: Faults) -> None:
    """The times of changes go back. With a change sequence, their order is known all the same."""
    faults.source.set_clock("+1h")
    faults.work()
    faults.reach()
    faults.deliver()
    faults.lake.tidemark("run")
    faults.source.set_clock("+0")
    faults.work()
    faults.reach()
    faults.check()


def test_the_slot_is_lost_and_the_tables_are_loaded_anew(faults: Faults) -> None:
    """What happened between is only in the new load. AWS DMS deletes the old files before."""
    for capture in faults.captures:
        capture.stop()
    faults.work(3)
    for capture in faults.captures:
        capture.reload()
        capture.prepare()
    for file in faults.waiting():
        file.unlink()
    for file in faults.lake.project.landing.rglob("*.*"):
        if file.is_file():
            file.unlink()
    for capture in faults.captures:
        capture.start()
    faults.work()
    faults.reach()
    faults.check(histories=False)
