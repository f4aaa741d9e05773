"""Measure both, print seconds and the ratio.

The hand-written job is what most people have: read the change file, keep the last row of each
key, MERGE it with deletes. It keeps a current table only, and is wrong on late changes. Tidemark
also keeps the change log, the history and the dead letters.
"""

import os
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tabulate import tabulate

ROWS = int(os.environ.get("BENCH_ROWS", "200000"))
CHANGES = int(os.environ.get("BENCH_CHANGES", "10000"))
BATCHES = 3
COLUMNS = {"id": "int", "name": "string", "city": "string", "amount": "bigint", "at": "timestamp"}


@dataclass
class Clock:
    """Wall and CPU seconds of named steps; CPU counts this process and the JVM below it."""

    steps: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def measure(self, name: str, step: Callable[[], object]) -> None:
        """Run a step and remember what it took."""
        wall, cpu = time.perf_counter(), _cpu()
        step()
        took = (time.perf_counter() - wall, _cpu() - cpu)
        self.steps.setdefault(name, []).append(took)
        print(f"  {name}: {took[0]:.1f} s", flush=True)


def _cpu() -> float:
    """CPU seconds of this process and all its live children (the JVM is one)."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    total = own.ru_utime + own.ru_stime
    tick = os.sysconf("SC_CLK_TCK")
    me = os.getpid()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(") ", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == me:
            total += (int(fields[11]) + int(fields[12])) / tick
    return total


def _write_files(folder: Path) -> None:
    made_up = random.Random(7)

    def row(key: int) -> str:
        return f"{key},name {key},city {key % 997},{made_up.randint(1, 10**6)},2024-01-01 10:00:00"

    folder.mkdir(parents=True)
    (folder / "LOAD00000001.csv").write_text("".join(row(key) + "\n" for key in range(ROWS)))
    for batch in range(BATCHES):
        lines = []
        for _ in range(CHANGES):
            op = made_up.choices("IUD", (10, 80, 10))[0]
            key = made_up.randrange(ROWS + (ROWS if op == "I" else 0))
            lines.append(f"{op},{row(key)}\n")
        (folder / f"2024020{batch + 1}-100000000.csv").write_text("".join(lines))


def main() -> None:
    """Run the benchmark in a lake of its own."""
    work = Path(tempfile.mkdtemp(prefix="tidemark-bench-"))
    os.environ["TIDEMARK_LAKE"] = str(work / "lake")
    from tests.project import Project
    from tidemark.spark import session

    files = work / "files"
    _write_files(files)
    spark = session.get()
    clock = Clock()
    project = Project(work / "project", spark)
    project.add("bench.t", COLUMNS, "id", loaded_at="2024-01-01")
    target = project.landing / "bench" / "t"
    target.mkdir(parents=True)
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

    def arrive(name: str) -> None:
        shutil.copy(files / name, target / name)

    def hand_written(name: str, first: bool) -> None:
        if first:
            spark.read.csv(str(files / name), schema=schema).write.format("delta").saveAsTable(
                "naive"
            )
            return
        spark.read.csv(str(files / name), schema=f"op string, {schema}").createOrReplaceTempView(
            "c"
        )
        spark.sql(
            "merge into naive t using (select c.* from (select max_by(struct(*), at) as c "
            "from c group by id)) s on t.id = s.id when matched and s.op = 'D' then delete "
            "when matched then update set * when not matched and s.op <> 'D' then insert *"
        )

    names = sorted(file.name for file in files.iterdir())
    load, changes = names[-1], names[:-1]
    print(f"{ROWS} rows, then {BATCHES} batches of {CHANGES} changes")
    arrive(load)
    clock.measure("Tidemark, full load", project.build)
    clock.measure("hand-written, full load", lambda: hand_written(load, True))
    for name in changes:
        arrive(name)
        clock.measure("hand-written, a batch", lambda name=name: hand_written(name, False))  # type: ignore[misc]
        clock.measure("Tidemark, a batch", project.build)
    clock.measure("Tidemark, nothing new", project.build)

    rows = [
        (name, *(f"{median(values):.1f}" for values in zip(*times, strict=True)))
        for name, times in clock.steps.items()
    ]
    print(tabulate(rows, headers=["median of a step", "wall s", "CPU s"], disable_numparse=True))
    ours, theirs = (
        median(cpu for _, cpu in clock.steps[name])
        for name in ("Tidemark, a batch", "hand-written, a batch")
    )
    print(
        f"Tidemark (log, current, history) / hand-written (current only): {ours / theirs:.2f} CPU"
    )
    shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
