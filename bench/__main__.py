"""`make bench`: Tidemark and the hand-written job side by side, as whole processes.

Both get the same files, one after the other. Tidemark runs twice: each command with a Spark of its
own, and with `tidemark up`. Its tables are compared with the truth. The figures go into
docs/performance.md. BENCH_SIZES selects sizes, such as `BENCH_SIZES=3,100k`.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from tabulate import tabulate

from bench import data
from tidemark.scaffold import add
from tidemark.spark import machine

REPO = Path(__file__).parent.parent
PAGE = REPO / "docs" / "performance.md"
MARKS = ("<!-- figures -->\n", "<!-- end of figures -->\n")
SIZES = {"3": (3, 3), "100k": (100_000, 10_000), "1M": (1_000_000, 50_000)}
_IDLE = 0.1
_FEED = {
    "format": "dms",
    "key": "id",
    "sequence": "change_seq",
    "timestamp_column": "commit_ts",
}


class Side:
    """A project with one table, in a folder of its own."""

    def __init__(self, folder: Path, feed: Mapping[str, Any] = _FEED) -> None:
        self.folder = folder
        self.tidemark("init", str(folder))
        self.landing = folder / "landing" / "shop" / "customers"
        self.landing.mkdir(parents=True)
        add.write(folder, add.NewTable("shop", "customers", dict(data.COLUMNS), dict(feed)))

    def tidemark(self, *arguments: str) -> str:
        """Run a command in the project."""
        return self._run("tidemark", *arguments)

    def dbt(self, *arguments: str) -> str:
        """Run a command of dbt in the project."""
        return self._run("dbt", *arguments)

    def _run(self, program: str, *arguments: str) -> str:
        there = self.folder if self.folder.exists() else self.folder.parent
        return run([str(Path(sys.executable).with_name(program)), *arguments], there)

    def lands(self, file: Path, name: str) -> float:
        """The seconds of a run with this new file."""
        shutil.copyfile(file, self.landing / f"{name}.parquet")
        return timed(self.tidemark, "run")

    def require_truth(self, truth: Path) -> None:
        """Stop if the current table differs from the truth."""
        names = ", ".join(data.COLUMNS)
        tables = [
            f"(select {names} from {each})"
            for each in ("current.cur_shop__customers", f"parquet.`{truth}`")
        ]
        sides = (tables, tables[::-1])
        counts = [f"(select count(*) from ({a} except all {b}))" for a, b in sides]
        told = self.tidemark("sql", f"select {', '.join(counts)}", "--format", "csv")
        if told.splitlines()[1] != "0,0":
            sys.exit(f"The table differs from the truth:\n{told}")


def run(command: Sequence[str], folder: Path) -> str:
    """The output of a command. Stops with it if the command fails."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("TIDEMARK_LAKE", "TIDEMARK_LANDING", "DBT_PROJECT_DIR")
    }
    environment["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def timed(step: Callable[..., object], *arguments: object) -> float:
    """The seconds of a step."""
    start = time.perf_counter()
    step(*arguments)
    return time.perf_counter() - start


def measure(size: str, work: Path) -> list[list[str]]:
    """The rows of the page for one size."""
    files = work / size / "files"
    rows, changes = SIZES[size]
    data.make(files, rows, changes)
    table = work / size / "script"

    def script(file: str) -> float:
        command = [sys.executable, "-m", "bench.script", str(table), str(files / file)]
        return timed(run, command, REPO)

    cold, warm = Side(work / size / "cold"), Side(work / size / "warm")
    load = files / "load.parquet"
    loads = (script("load.parquet"), cold.lands(load, "LOAD00000001"))
    warm.tidemark("up")
    try:
        warm.lands(load, "LOAD00000001")
        times: dict[str, list[float]] = {"script": [], "cold": [], "warm": []}
        for number in range(1, data.BATCHES + 1):
            name, landed = f"batch_{number}.parquet", f"2026020{number}-000000000"
            times["script"].append(script(name))
            times["cold"].append(cold.lands(files / name, landed))
            times["warm"].append(warm.lands(files / name, landed))
            print(size, {side: round(each[-1], 1) for side, each in times.items()}, flush=True)
        idle = timed(cold.tidemark, "run")
        queries = [timed(side.tidemark, "sql", "select 1") for side in (cold, warm)]
        for side in (cold, warm):
            side.require_truth(files / "truth.parquet")
    finally:
        warm.tidemark("down")
    by, alone, up = (median(times[side]) for side in ("script", "cold", "warm"))
    return [
        [f"first load of {rows:,} rows", *_told(loads[0], loads[1], None)],
        [f"a batch of {changes:,} changes to {rows:,} rows", *_told(by, alone, up)],
        [f"nothing new ({rows:,} rows)", *_told(None, idle, None)],
        [f"`tidemark sql` ({rows:,} rows)", *_told(None, *queries)],
    ]


def _told(script: float | None, alone: float, up: float | None) -> list[str]:
    seconds = [f"{each:.1f}" if each is not None else "" for each in (script, alone, up)]
    return [*seconds, *(f"{each / script:.2f}" if script and each else "" for each in (alone, up))]


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
    sizes = os.environ.get("BENCH_SIZES", ",".join(SIZES)).split(",")
    work = Path(tempfile.mkdtemp(prefix="tidemark-bench-"))
    try:
        rows = [row for size in sizes for row in measure(size, work)]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    headers = ["median, seconds", "script", "Tidemark", "with `up`", "ratio", "ratio, `up`"]
    figures = tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)
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
