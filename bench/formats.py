"""What the table formats cost, with copy-on-write and merge-on-read.

Four projects get the same files (200,000 rows, then 5 batches of 2,000 changes), in turns. In the
end all are maintained. Spark 3.5 has Hudi, too, but no `tidemark up`: there, each command starts a
Spark of its own.
"""

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from tabulate import tabulate

from bench import data
from bench.side import Side, timed
from tidemark.maintain import size_of
from tidemark.spark import spark_line

_ROWS, _BATCHES, _CHANGES = 200_000, 5, 2_000
_DELTA, _ICEBERG, _HUDI = ({"+file_format": name} for name in ("delta", "iceberg", "hudi"))
_MARKS, _REWRITES = ({"+deletion_vectors_from": rows} for rows in (1, 10**9))
_MARKED: dict[str, Mapping[str, Any]] = {
    "Delta, deletion vectors": _DELTA | _MARKS,
    "Iceberg, merge-on-read": _ICEBERG | _MARKS,
}
_HAS_UP = spark_line.name() != "3.5"
# The settings of current and history.
_WAYS: dict[str, Mapping[str, Any]] = _MARKED | (
    {
        "Delta, copy-on-write": _DELTA | _REWRITES,
        "Iceberg, copy-on-write": _ICEBERG | _REWRITES,
    }
    if _HAS_UP
    else {
        "Hudi, copy-on-write": _HUDI,
        "Hudi, merge-on-read": _HUDI | {"+tblproperties": {"type": "mor"}},
    }
)
_TABLES = ("current.cur_shop__customers", "history.hist_shop__customers")


def _side(folder: Path, told: Mapping[str, Any]) -> Side:
    side = Side(folder)
    side.catalog = "iceberg." if told["+file_format"] == "iceberg" else ""
    file = folder / "dbt_project.yml"
    settings = yaml.safe_load(file.read_text())
    (models,) = settings["models"].values()
    for layer in ("current", "history"):
        models[layer] |= told
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
    return side


def _stored(side: Side, table: str) -> int:
    """The bytes of a table's data files, Hudi's logs and deletion vectors, of all versions."""
    schema, name = table.split(".")
    # On Spark 3.5 the lake has another name.
    (warehouse,) = side.folder.glob(".tidemark*/warehouse")
    folder = warehouse / f"{schema}.db" / name
    kinds = (".parquet", ".puffin", ".bin")
    return sum(
        each.stat().st_size
        for each in folder.rglob("*.*")
        if each.suffix in kinds or (".log." in each.name and ".hoodie" not in each.parts)
    )


def _scan(side: Side) -> float:
    query = f"select count(*), sum(balance) from {side.catalog}{_TABLES[0]}"
    return median(timed(side.tidemark, "sql", query) for _ in range(3))


def measure(work: Path) -> str:
    """A table of the page."""
    work = work / "formats"
    files = work / "files"
    data.make(files, _ROWS, _CHANGES, _BATCHES)
    sides = {
        way: _side(work / str(number), told) for number, (way, told) in enumerate(_WAYS.items())
    }
    runs: dict[str, list[float]] = {way: [] for way in sides}
    try:
        for side in sides.values() if _HAS_UP else ():
            side.tidemark("up")
        loads = {
            way: side.lands(files / "load.parquet", "LOAD00000001") for way, side in sides.items()
        }
        loaded = {way: [_stored(side, table) for table in _TABLES] for way, side in sides.items()}
        for number in range(1, _BATCHES + 1):
            for way, side in sides.items():
                landed = f"2026020{number}-000000000"
                runs[way].append(side.lands(files / f"batch_{number}.parquet", landed))
            print(
                "formats",
                number,
                {way: round(each[-1], 1) for way, each in runs.items()},
                flush=True,
            )
        found = [
            ["first load", *(f"{each:.1f} s" for each in loads.values())],
            ["a batch, median without the first two"]
            + [f"{median(each[2:]):.1f} s" for each in runs.values()],
        ]
        for at, table in enumerate(_TABLES):
            written = [
                (_stored(side, table) - loaded[way][at]) // _BATCHES for way, side in sides.items()
            ]
            found.append([f"`{table}`: written per batch", *map(size_of, written)])
        found.append(["a scan of current", *(f"{_scan(each):.2f} s" for each in sides.values())])
        command = ("maintain", "--vacuum-after", "1 second", "--force")
        care = [timed(side.tidemark, *command) for side in sides.values()]
        found.append(["maintenance", *(f"{each:.1f} s" for each in care)])
        found.append(["a scan afterwards", *(f"{_scan(each):.2f} s" for each in sides.values())])
        for side in sides.values():
            side.require_truth(files / "truth.parquet")
    finally:
        for side in sides.values() if _HAS_UP else ():
            side.tidemark("down")
    headers = [f"{_ROWS:,} rows, {_BATCHES} batches of {_CHANGES:,} changes", *sides]
    return str(tabulate(found, headers=headers, tablefmt="github", disable_numparse=True))
