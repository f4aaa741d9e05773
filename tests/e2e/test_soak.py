"""For minutes: clients change PostgreSQL, a task of AWS DMS (dms.py) captures it, Tidemark runs.

`tidemark run` is a process of its own each time, as from cron, with a Spark that stays up. Set
TIDEMARK_SOAK_SECONDS (40) and TIDEMARK_SOAK_RATE (transactions in a second); the figures that we
publish are of 1200 seconds. The test prints changes in a second, lag, memory and files.
"""

import os
import re
import shutil
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable

from tests.e2e import clients, dms, postgres, truth
from tests.e2e.dms import deliver, reach
from tests.e2e.place import Place, differences
from tests.e2e.stage import SEED, now
from tests.e2e.test_postgres import SCHEMA
from tests.project import Project
from tidemark.spark import spark_line

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.functional,
    pytest.mark.skipif(spark_line.name() != "4.1", reason="PySpark 3.5 has no Connect server"),
]

SECONDS = int(os.environ.get("TIDEMARK_SOAK_SECONDS", "40"))
RATE = int(os.environ.get("TIDEMARK_SOAK_RATE", "40"))
TASK = dms.Task("soak", ("customer", "orders"), schema="soak")
# Runs compact what has 10 small files in a partition; before that, each run adds some.
MAINTAIN = {"every": "30 seconds"}
MOST_FILES = 40


@dataclass
class Soak:
    """What happened, and what was there at the end."""

    crashes: int = 0
    # Of each run: its seconds, and how long a change waited at most until it was there.
    runs: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    # After each run, in MB: Java's heap after a collection, and the process.
    heaps: list[float] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)
    # The largest number of files that a table's version needs, after each run.
    files: list[int] = field(default_factory=list)
    changes: int = 0
    written: dict[str, Counter[str]] = field(default_factory=dict)
    logged: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    dead_letters: int = 0
    # Data files in the warehouse after VACUUM that no version needs.
    left: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def soak(
    module_project: Callable[[], Project], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Soak]:
    postgres.require()
    folder = tmp_path_factory.mktemp("soak")
    with postgres.running() as source, ExitStack() as stack:
        capture = dms.Capture(TASK, source, folder / "outbox")
        place = Place(module_project(), folder / "lake")
        stack.callback(place.tidemark, "down")
        stack.callback(capture.stop)
        yield _run(source, capture, place, folder)


def _run(source: postgres.Postgres, capture: dms.Capture, place: Place, folder: Path) -> Soak:
    soak = Soak()
    project = place.project
    settings = project.folder / "dbt_project.yml"
    content = yaml.safe_load(settings.read_text())
    content.setdefault("vars", {}).setdefault("tidemark", {})["maintain"] = MAINTAIN
    settings.write_text(yaml.safe_dump(content, sort_keys=False))
    source.sql(SCHEMA.read_text())
    source.sql("alter table ticketing.customer replica identity full")
    start = truth.last_change(source)
    capture.prepare()
    read_from = now()
    place.tidemark("up")
    with clients.working(source, folder, SECONDS, RATE, SEED, without={"truncate"}) as work:
        capture.start()
        capture.wait(capture.has_changes, "changes of each table")
        snapshot = (read_from, now())
        delivered = time.monotonic()
        deliver(capture, project.landing)
        place.tidemark("discover")
        place.tidemark("add", "soak")
        # On a slow machine, a second run takes what the crash after the first has repeated.
        while work.poll() is None or len(soak.runs) < 2:
            before, delivered = delivered, time.monotonic()
            deliver(capture, project.landing)
            place.tidemark("run")
            soak.runs.append(time.monotonic() - delivered)
            # The oldest change of this run came when the one before had just begun.
            soak.lags.append(time.monotonic() - before + TASK.interval)
            _measure(soak, place)
            if len(soak.runs) % 4 == 1:
                capture.crash()
                capture.start()
                soak.crashes += 1
        clients.finish(work)
    reach(source, [capture], 1)
    deliver(capture, project.landing)
    place.tidemark("run")
    place.tidemark("maintain", "--vacuum-after", "0 seconds", "--force")
    soak.written = capture.written
    soak.changes = int(
        source.sql("select count(*) from audit.change where change_id > " + str(start))
    )
    tables = place.tables()
    place.tidemark("down")
    soak.logged = {name: _count(tables[f"log_soak.{name}"]) for name in TASK.tables}
    soak.left = _left(tables)
    dead = place.lake / "warehouse" / "tidemark.db" / "dead_letter"
    soak.dead_letters = _count(DeltaTable(dead)) if dead.exists() else 0
    soak.differences = differences(source, place, TASK, start, snapshot)
    _tell(soak)
    return soak


def _measure(soak: Soak, place: Place) -> None:
    process = place.processes()["spark"]
    status = Path(f"/proc/{process}/status").read_text()
    resident = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert resident
    soak.resident.append(int(resident[1]) / 1024)
    if shutil.which("jcmd"):
        for command in ("GC.run", "GC.heap_info"):
            told = subprocess.run(
                ["jcmd", str(process), command], capture_output=True, text=True, check=True
            ).stdout
        soak.heaps.append(
            sum(int(it) for it in re.findall(r"(?<!Metaspace )used (\d+)K", told)) / 1024
        )
    soak.files.append(max(len(table.file_uris()) for table in place.tables().values()))


def _count(table: DeltaTable) -> int:
    return int(sum(table.get_add_actions(flatten=True).column("num_records").to_pylist()))


def _left(tables: Mapping[str, DeltaTable]) -> list[str]:
    left = []
    for name, table in tables.items():
        there = {str(file) for file in Path(table.table_uri).rglob("*.parquet")}
        there = {file for file in there if "_delta_log" not in file}
        left += [f"{name} {file}" for file in there - set(table.file_uris())]
    return left


def _tell(soak: Soak) -> None:
    print(
        f"\n{soak.changes} changes, {soak.changes / SECONDS:.0f} in a second; "
        f"{len(soak.runs)} runs; lag: median {statistics.median(soak.lags):.0f} s, "
        f"at most {max(soak.lags):.0f} s"
    )
    print("runs, s:", *(round(it) for it in soak.runs))
    print("heap, MB:", *(round(it) for it in soak.heaps))
    print("process, MB:", *(round(it) for it in soak.resident))
    print("files:", *soak.files)


def test_runs_while_clients_work_and_the_capture_crashes(soak: Soak) -> None:
    assert len(soak.runs) >= 2
    assert soak.crashes >= 1


def test_nothing_is_refused(soak: Soak) -> None:
    assert soak.dead_letters == 0


def test_the_lake_equals_the_source(soak: Soak) -> None:
    assert not soak.differences, "\n".join(soak.differences[:40])


def test_nothing_is_lost_or_doubled_in_the_logs(soak: Soak) -> None:
    """An update of a key is two rows in the log, a delete and an insert."""
    assert soak.logged == {name: soak.written[name].total() for name in TASK.tables}


@pytest.mark.slow
def test_memory_stays(soak: Soak) -> None:
    """Spark's heap after a collection: later runs do not keep more than earlier ones."""
    half = len(soak.heaps) // 2
    if half < 2:
        pytest.skip("too few runs, or no jcmd")
    assert min(soak.heaps[half:]) < max(soak.heaps[:half]) * 1.2 + 50


def test_files_stay_few(soak: Soak) -> None:
    assert max(soak.files) <= MOST_FILES
    assert soak.left == []
