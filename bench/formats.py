"""What the table formats cost, with copy-on-write and merge-on-read.

Four projects get the same files (200,000 rows, then 30 batches of 2,000 changes), ten batches in
turns. In the end all are maintained. Hudi is there on Spark 3.5 only. Ten batches run in one
process (batches.py), and every other command starts a Spark of its own.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from tabulate import tabulate

from bench import data
from bench.side import Side, run, timed
from tidemark.maintain import size_of
from tidemark.spark import spark_line

_ROWS, _BATCHES, _TURN, _CHANGES = 200_000, 30, 10, 2_000
_DELTA, _ICEBERG, _HUDI = ({"+file_format": name} for name in ("delta", "iceberg", "hudi"))
_MARKS, _REWRITES = ({"+deletion_vectors_from": rows} for rows in (1, 10**9))
# The settings of current and history.
_WAYS: dict[str, Mapping[str, Any]] = {
    "Delta, deletion vectors": _DELTA | _MARKS,
    "Iceberg, merge-on-read": _ICEBERG | _MARKS,
}
_MORE: dict[str, Mapping[str, Any]] = {
    "Delta, copy-on-write": _DELTA | _REWRITES,
    "Iceberg, copy-on-write": _ICEBERG | _REWRITES,
}
_OF_3_5: dict[str, Mapping[str, Any]] = {
    "Hudi, copy-on-write": _HUDI,
    "Hudi, merge-on-read": {**_HUDI, "+tblproperties": {"type": "mor"}},
}
_WAYS |= _OF_3_5 if spark_line.name() == "3.5" else _MORE
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


def _stored(side: Side, table: str) -> dict[Path, int]:
    """The data files of a table, Hudi's logs and deletion vectors, and their bytes."""
    schema, name = table.split(".")
    # On Spark 3.5 the lake has another name.
    (warehouse,) = side.folder.glob(".tidemark*/warehouse")
    folder = warehouse / f"{schema}.db" / name
    kinds = (".parquet", ".puffin", ".bin")
    return {
        each: each.stat().st_size
        for each in folder.rglob("*.*")
        if each.suffix in kinds or (".log." in each.name and ".hoodie" not in each.parts)
    }


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
    loads = {way: side.lands(files / "load.parquet", "LOAD00000001") for way, side in sides.items()}
    # Hudi deletes the files of old versions, but none of the last ten batches.
    stored = {way: [_stored(side, table) for table in _TABLES] for way, side in sides.items()}
    written = {way: [0 for _ in _TABLES] for way in sides}
    repeated = [sys.executable, "-m", "bench.batches", str(files)]
    for first in range(1, _BATCHES + 1, _TURN):
        for way, side in sides.items():
            told = run([*repeated, str(first), str(first + _TURN - 1)], side.folder)
            runs[way] += json.loads(told.splitlines()[-1])
            for at, table in enumerate(_TABLES):
                now, before = _stored(side, table), stored[way][at]
                written[way][at] += sum(size for file, size in now.items() if file not in before)
                stored[way][at] = now
        said = {way: round(median(each[-_TURN:]), 1) for way, each in runs.items()}
        print("formats", first, said, flush=True)
    for side in sides.values():
        side.require_truth(files / "truth.parquet")
    found = [
        ["first load", *(f"{each:.1f} s" for each in loads.values())],
        ["a batch, median", *(f"{median(each):.1f} s" for each in runs.values())],
    ]
    for at, table in enumerate(_TABLES):
        per_batch = [size_of(each[at] / _BATCHES) for each in written.values()]
        found.append([f"`{table}`: written per batch", *per_batch])
    found.append(["a scan of current", *(f"{_scan(each):.2f} s" for each in sides.values())])
    command = ("maintain", "--vacuum-after", "1 second", "--force")
    care = [timed(side.tidemark, *command) for side in sides.values()]
    found.append(["maintenance", *(f"{each:.1f} s" for each in care)])
    found.append(["a scan afterwards", *(f"{_scan(each):.2f} s" for each in sides.values())])
    headers = [f"{_ROWS:,} rows, {_BATCHES} batches of {_CHANGES:,} changes", *sides]
    return str(tabulate(found, headers=headers, tablefmt="github", disable_numparse=True))
