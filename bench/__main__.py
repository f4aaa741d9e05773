"""`make bench`: Tidemark and the hand-written job side by side, as whole processes.

Both get the same files, one after the other. Tidemark runs in three ways: each command with a Spark
of its own, the same for a table without history, and with `tidemark up`. Its tables are compared
with the truth. In the sizes `late`, changes arrive a batch late and deleted keys come back. 30
tables are compared with dbt-spark's own merge (thirty.py), a table that is maintained with one that
is not (maintained.py), a log before and after a cut (retention.py), and the table formats with each
other (formats.py). The figures go into docs/performance.md. BENCH_SIZES selects some of them, such
as `BENCH_SIZES=3,100k,thirty`.
"""

import os
import platform
import shutil
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median

from tabulate import tabulate

from bench import data, formats, maintained, retention, thirty
from bench.side import Side, run, timed
from tidemark.spark import machine

REPO = Path(__file__).parent.parent
PAGE = REPO / "docs" / "performance.md"
MARKS = ("<!-- figures -->\n", "<!-- end of figures -->\n")
# Rows, changes in a batch, and the share of these that is late.
SIZES = {
    "3": (3, 3, 0.0),
    "100k": (100_000, 10_000, 0.0),
    "100k late": (100_000, 10_000, 0.005),
    "1M": (1_000_000, 50_000, 0.0),
    "1M late": (1_000_000, 50_000, 0.005),
}
# Each gives a table of its own.
TABLES = {
    "thirty": thirty.measure,
    "maintained": maintained.measure,
    "retention": retention.measure,
    "formats": formats.measure,
}
_IDLE = 0.1


def measure(size: str, work: Path) -> list[list[str]]:
    """The rows of the page for one size."""
    rows, changes, late = SIZES[size]
    work = work / size.replace(" ", "_")
    files = work / "files"
    data.make(files, rows, changes, late=late)

    def script(file: str) -> float:
        command = [sys.executable, "-m", "bench.script", str(work / "script"), str(files / file)]
        return timed(run, command, REPO)

    sides = {
        "alone": Side(work / "alone"),
        "current": Side(work / "current", has_history=False),
        "up": Side(work / "up"),
    }
    sides["up"].tidemark("up")
    try:
        loads = {"script": script("load.parquet")}
        for name, side in sides.items():
            loads[name] = side.lands(files / "load.parquet", "LOAD00000001")
        print(size, "load", {name: round(each, 1) for name, each in loads.items()}, flush=True)
        times: dict[str, list[float]] = {name: [] for name in loads}
        for number in range(1, data.BATCHES + 1):
            file = f"batch_{number}.parquet"
            times["script"].append(script(file))
            for name, side in sides.items():
                times[name].append(side.lands(files / file, f"2026020{number}-000000000"))
            print(size, {name: round(each[-1], 1) for name, each in times.items()}, flush=True)
        idle = timed(sides["alone"].tidemark, "run")
        queries = {name: timed(sides[name].tidemark, "sql", "select 1") for name in ("alone", "up")}
        for side in sides.values():
            side.require_truth(files / "truth.parquet")
    finally:
        sides["up"].tidemark("down")
    some_late = ", some late" if late else ""
    batches = {name: median(each) for name, each in times.items()}
    told = [
        _told(f"first load of {rows:,} rows", loads),
        _told(f"a batch of {changes:,} changes to {rows:,} rows{some_late}", batches),
    ]
    if not late:
        told.append(_told(f"nothing new ({rows:,} rows)", {"alone": idle}))
        told.append(_told(f"`tidemark sql` ({rows:,} rows)", queries))
    return told[1:] if late else told


def _told(what: str, seconds: dict[str, float]) -> list[str]:
    """A row of the page: seconds, and those of Tidemark as multiples of the script's."""
    ways = ("alone", "current", "up")
    script = seconds.get("script")
    return [
        what,
        *(f"{seconds[way]:.1f}" if way in seconds else "" for way in ("script", *ways)),
        *(f"{seconds[way] / script:.2f}" if script and way in seconds else "" for way in ways),
    ]


def busy() -> float:
    """The share of the machine's time that other programs use now."""

    def ticks() -> tuple[int, int]:
        found = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(found), found[3] + found[4]

    before = ticks()
    time.sleep(3)
    total, idle = (after - earlier for after, earlier in zip(ticks(), before, strict=True))
    return 1 - idle / total


def main() -> None:
    """Measure all sizes, and write the page."""
    share = busy()
    if share > _IDLE:
        sys.exit(f"Other programs use {share:.0%} of this machine. Try again when it is idle.")
    sizes = os.environ.get("BENCH_SIZES", ",".join([*SIZES, *TABLES])).split(",")
    work = Path(tempfile.mkdtemp(prefix="tidemark-bench-"))
    try:
        rows = [row for size in sizes if size in SIZES for row in measure(size, work)]
        tables = [measured(work) for name, measured in TABLES.items() if name in sizes]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    ways = ("", ", current only", ", `up`")
    headers = ["median, seconds", "script", "Tidemark", "current only", "with `up`"]
    headers += [f"ratio{way}" for way in ways]
    figures = tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)
    figures = "\n\n".join(each for each in (figures if rows else "", *tables) if each)
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("pyspark", "delta-spark", "dbt-core")
    )
    told = (
        f"{time.strftime('%d %B %Y')}, {machine.cores()} cores, {machine.memory() >> 30} GiB, "
        f"Python {platform.python_version()}, "
    )
    print(figures)
    before, rest = PAGE.read_text().split(MARKS[0])
    _, after = rest.split(MARKS[1])
    PAGE.write_text(f"{before}{MARKS[0]}\n{told}{packages}:\n\n{figures}\n\n{MARKS[1]}{after}")


if __name__ == "__main__":
    main()
