"""What maintenance is worth.

Two projects get the same files (2,000,000 rows, then 60 batches of 2,000 changes), in turns, each
with a Spark that `tidemark up` keeps. One is maintained after every tenth batch.
"""

from pathlib import Path
from statistics import median

from tabulate import tabulate

from bench import data
from bench.side import Side, timed
from tidemark.maintain import size_of

_ROWS, _BATCHES, _CHANGES, _EVERY = 2_000_000, 60, 2_000, 10
_TABLES = ("log_shop.customers", "current.cur_shop__customers", "history.hist_shop__customers")
_QUERIES = {
    "a scan of current": "select count(*), sum(balance) from current.cur_shop__customers",
    "a key in history": "select count(*) from history.hist_shop__customers where id = 4711",
}


def stored(side: Side, table: str) -> tuple[int, int]:
    """The data files of a table, of all its versions, and their bytes."""
    schema, name = table.split(".")
    folder = side.folder / ".tidemark" / "warehouse" / f"{schema}.db" / name
    sizes = [each.stat().st_size for each in folder.rglob("*.parquet")]
    return len(sizes), sum(sizes)


def live(side: Side, table: str) -> int:
    """The files of the table's newest version."""
    # Delta does not understand `history` without backticks here.
    name = ".".join(f"`{part}`" for part in table.split("."))
    told = side.tidemark("sql", f"describe detail {name}", "--format", "csv").splitlines()
    return int(told[1].split(",")[told[0].split(",").index("numFiles")])


def _query(side: Side, query: str) -> float:
    return median(timed(side.tidemark, "sql", query) for _ in range(5))


def measure(work: Path) -> str:
    """A table of the page."""
    work = work / "maintenance"
    files = work / "files"
    data.make(files, _ROWS, _CHANGES, _BATCHES)
    sides = {"left": Side(work / "left"), "maintained": Side(work / "maintained")}
    runs: dict[str, list[float]] = {name: [] for name in sides}
    care: list[float] = []
    try:
        for side in sides.values():
            side.tidemark("up")
            side.lands(files / "load.parquet", "LOAD00000001")
        for number in range(1, _BATCHES + 1):
            for name, side in sides.items():
                landed = f"202602{1 + number // 24:02d}-{number % 24:02d}0000000"
                runs[name].append(side.lands(files / f"batch_{number}.parquet", landed))
            if number % _EVERY == 0:
                command = ("maintain", "--vacuum-after", "1 second", "--force")
                care.append(timed(sides["maintained"].tidemark, *command))
                print(number, {name: round(each[-1], 1) for name, each in runs.items()}, flush=True)
        found = [
            [
                f"a run, median of batches {first} to {last}",
                *(f"{median(runs[name][first - 1 : last]):.1f} s" for name in sides),
            ]
            for first, last in ((2, 11), (_BATCHES - 9, _BATCHES))
        ]
        found.append(["maintenance, median", "", f"{median(care):.1f} s"])
        for title, query in _QUERIES.items():
            found.append([title, *(f"{_query(side, query):.2f} s" for side in sides.values())])
        for table in _TABLES:
            found.append(
                [f"`{table}`: files in use", *(str(live(side, table)) for side in sides.values())]
            )
            of_sides = [stored(side, table) for side in sides.values()]
            found.append([f"`{table}`: files stored", *(str(count) for count, _ in of_sides)])
            found.append([f"`{table}`: bytes stored", *(size_of(size) for _, size in of_sides)])
        for side in sides.values():
            side.require_truth(files / "truth.parquet")
    finally:
        for side in sides.values():
            side.tidemark("down")
    title = f"{_ROWS:,} rows, {_BATCHES} batches of {_CHANGES:,} changes"
    headers = [title, "not maintained", "maintained"]
    return str(tabulate(found, headers=headers, tablefmt="github", disable_numparse=True))
