"""What fails while `tidemark run` replicates a database under load: afterwards the lake is right.

Clients change PostgreSQL and a task of AWS DMS (dms.py) captures it, all the time. Each test has a
lake of its own, which begins with all files so far. A fault ends a run, or makes it fail with a
sentence; when the fault is over, the next run makes the tables equal to the database, and the logs
have each change once. TIDEMARK_KILLS (6): how often each fault happens.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests import s3_server, thrift_server
from tests.e2e import clients, dms, postgres, truth
from tests.e2e.dms import deliver, reach
from tests.e2e.place import Place, differences
from tests.e2e.stage import SEED, now
from tests.e2e.test_postgres import SCHEMA
from tests.project import Project
from tidemark.spark import spark_line

pytestmark = [pytest.mark.e2e, pytest.mark.functional, pytest.mark.slow]

TASK = dms.Task("faults", ("customer", "member"), schema="fault")
TIMES = int(os.environ.get("TIDEMARK_KILLS", "6"))


@dataclass
class Busy:
    """The database, its clients and the capture, all running."""

    source: postgres.Postgres
    capture: dms.Capture
    project: Project
    folder: Path
    start: int
    snapshot: tuple[str, str]
    turn: int = 0

    def place(self, name: str, **variables: str) -> Place:
        """A new lake."""
        return Place(self.project, self.folder / name, variables)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Clients work in here; afterwards everything that they did is delivered."""
        self.turn += 1
        with clients.working(
            self.source, self.folder, 3600, 20, SEED + self.turn, without={"truncate"}
        ) as work:
            yield
            assert work.poll() is None
        others = "select count(*) from pg_stat_activity where application_name = 'pgbench'"
        while self.source.sql(others) != "0":
            time.sleep(0.1)
        reach(self.source, [self.capture], self.turn)
        self.deliver()

    def deliver(self) -> None:
        """Move what the capture has written into the landing folder."""
        deliver(self.capture, self.project.landing)

    def check(self, place: Place) -> None:
        """Nothing is lost, doubled or wrong."""
        found = differences(self.source, place, TASK, self.start, self.snapshot)
        assert not found, "\n".join(found[:40])
        logged = {name: _count(place.folder(f"log_fault.{name}")) for name in TASK.tables}
        assert logged == {name: self.capture.written[name].total() for name in TASK.tables}
        dead = place.folder("tidemark.dead_letter")
        assert not dead.exists() or _count(dead) == 0


def _count(folder: Path) -> int:
    actions = DeltaTable(folder).get_add_actions(flatten=True)
    return int(sum(actions.column("num_records").to_pylist()))


@pytest.fixture(scope="module")
def busy(
    module_project: Callable[[], Project], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Busy]:
    postgres.require()
    folder = tmp_path_factory.mktemp("busy")
    with postgres.running() as source:
        source.sql(SCHEMA.read_text())
        source.sql("alter table ticketing.customer replica identity full")
        start = truth.last_change(source)
        capture = dms.Capture(TASK, source, folder / "outbox")
        capture.prepare()
        read_from = now()
        busy = Busy(source, capture, module_project(), folder, start, ("", ""))
        try:
            with busy.working():
                capture.start()
                capture.wait(capture.has_changes, "changes of each table")
                busy.snapshot = (read_from, now())
            declare = busy.place("declared")
            declare.tidemark("discover")
            declare.tidemark("add", "fault")
            yield busy
        finally:
            capture.stop()


def test_runs_are_killed_at_any_point(busy: Busy) -> None:
    place, at = busy.place("killed"), random.Random(SEED)
    with busy.working():
        for kill in range(TIMES):
            busy.deliver()
            process = place.begin("run")
            try:
                # Sooner or later it comes to its end; the next one has new changes.
                process.communicate(timeout=at.uniform(2, 40))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                print(f"kill {kill + 1}", flush=True)
    place.tidemark("run")
    busy.check(place)


@pytest.fixture
def small_disk(busy: Busy) -> Iterator[Path]:
    """A disk of 100 MB."""
    folder = busy.folder / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_the_disk_of_the_lake_is_full(busy: Busy, small_disk: Path) -> None:
    place, at = busy.place("small/lake"), random.Random(SEED)
    filler, failed = small_disk / "filler", 0
    with busy.working():
        place.tidemark("run")
        for _ in range(TIMES):
            busy.deliver()
            free = shutil.disk_usage(small_disk).free
            with filler.open("wb") as file:
                # From nothing to what a run needs.
                for _ in range(max(0, free - at.choice([0, 8, 32, 128, 512]) * 1024) >> 12):
                    file.write(bytes(4096))
            process = place.begin("run")
            output, _ = process.communicate(timeout=300)
            filler.unlink()
            failed += process.returncode != 0
            assert process.returncode == 0 or "space" in output, output
            assert "Traceback" not in output, output
    assert failed
    place.tidemark("run")
    busy.check(place)


def test_the_s3_server_of_the_tables_is_killed(busy: Busy, tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "lake").mkdir(parents=True)
    at, port = random.Random(SEED), None
    place = busy.place("s3")
    place.tables_in = store / "lake" / "tables"
    failed = 0
    with busy.working():
        for _ in range(TIMES):
            with s3_server.running(port, store) as server:
                port = int(server.address.rpartition(":")[2])
                place.variables = _on_s3(server)
                busy.deliver()
                process = place.begin("run")
                try:
                    process.communicate(timeout=at.uniform(8, 50))
                except subprocess.TimeoutExpired:
                    os.kill(server.process, signal.SIGKILL)
                    failed += _fails(process)
    assert failed
    with s3_server.running(port, store):
        place.tidemark("run")
    busy.check(place)


def _fails(process: subprocess.Popen[str]) -> bool:
    """Whether a run fails. Then it says so in words."""
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0 or "Traceback" not in output, output
    return process.returncode != 0


def _on_s3(server: s3_server.S3Server) -> dict[str, str]:
    return {
        "TIDEMARK_WAREHOUSE": "s3a://lake/tables",
        "AWS_ENDPOINT_URL": f"http://{server.address}",
        "AWS_ACCESS_KEY_ID": s3_server.KEY,
        "AWS_SECRET_ACCESS_KEY": s3_server.SECRET,
    }


@pytest.mark.skipif(spark_line.name() != "4.1", reason="PySpark 3.5 has no Connect server")
def test_the_metastore_is_killed(busy: Busy, tmp_path: Path) -> None:
    """The process of the metastore and its database; Spark goes on without it."""
    at, failed = random.Random(SEED), 0
    with busy.working(), thrift_server.running(tmp_path / "lake") as server:
        place = Place(busy.project, server.lake, server.environment)
        for _ in range(TIMES):
            busy.deliver()
            process = place.begin("run", "--target", "thrift")
            try:
                process.communicate(timeout=at.uniform(3, 30))
            except subprocess.TimeoutExpired:
                os.kill(place.processes()["metastore"], signal.SIGKILL)
                failed += _fails(process)
                started = server.start()
                assert started.returncode == 0, started.stdout
    assert failed
    place.tidemark("run")
    busy.check(place)
