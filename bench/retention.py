"""What `keep_changes` saves.

A table of 100,000 rows arrives as a whole on each of 60 days, and each day a hundredth of its rows
has changed. Then the log is cut, and keeps the changes of 7 days. The tables must stay as they are,
also when they are rebuilt from what the log has then.
"""

import random
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tabulate import tabulate

from bench import data
from bench.maintained import live, stored
from bench.side import Side, timed
from tidemark.maintain import size_of

_ROWS, _DAYS = 100_000, 60
_LOG = "log_shop.customers"
_FEED = {
    "format": "extract",
    "key": "id",
    "time_in_name": "%Y-%m-%d",
    "keep_changes": "7 days",
}
# Two tables with the same rows have the same number.
_SAME = {
    "current.cur_shop__customers": "id, name, notes, updated_at",
    "history.hist_shop__customers": "version_key, notes, valid_from, valid_to, version_number",
}
_BUILD = ("build", "--full-refresh", "--select", "cur_shop__customers", "hist_shop__customers")


def _extracts(side: Side, load: pa.Table, days: int) -> None:
    """Write the files, the last one of yesterday."""
    chance = random.Random(7)
    notes = load["notes"].to_pylist()
    for number in range(days):
        for _ in range(len(notes) // 100):
            notes[chance.randrange(len(notes))] = f"{chance.getrandbits(160):040x}"
        at: date = datetime.now(UTC).date() - timedelta(days=days - number)
        table = load.set_column(load.schema.get_field_index("notes"), "notes", pa.array(notes))
        pq.write_table(table, side.landing / f"{at}.parquet")


def _contents(side: Side) -> list[str]:
    found = []
    for table, columns in _SAME.items():
        query = f"select count(*), bit_xor(xxhash64({columns})) from {table}"
        found.append(side.tidemark("sql", query, "--format", "csv").splitlines()[1])
    return found


def measure(work: Path) -> str:
    """A table of the page."""
    work = work / "retention"
    data.make(work / "files", _ROWS, 0, 0)
    load = pq.read_table(work / "files" / "load.parquet")
    side = Side(work / "kept", _FEED)
    _extracts(side, load, _DAYS)
    maintain = ("maintain", "--vacuum-after", "1 second", "--force")
    side.tidemark("up")
    try:
        print(f"a run with all extracts: {timed(side.tidemark, 'run'):.1f} s", flush=True)
        before = _contents(side)
        figures = [_figures(side)]
        print(f"the cut, with VACUUM: {timed(side.tidemark, *maintain):.1f} s", flush=True)
        if _contents(side) != before:
            sys.exit("The cut has changed the tables.")
        figures.append(_figures(side))
        if _contents(side) != before:
            sys.exit("A rebuild from the log that was cut differs.")
    finally:
        side.tidemark("down")
    titles = ("rows of the log", "its files in use", "its bytes stored", "a rebuild of both tables")
    rows = [list(row) for row in zip(titles, *figures, strict=True)]
    headers = [f"{_DAYS} extracts of {_ROWS:,} rows", "all changes", "after the cut"]
    return str(tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True))


def _figures(side: Side) -> list[str]:
    counted = side.tidemark("sql", f"select count(*) from {_LOG}", "--format", "csv")
    _, size = stored(side, _LOG)
    in_use = live(side, _LOG)
    seconds = timed(side.dbt, *_BUILD)
    return [f"{int(counted.splitlines()[1]):,}", str(in_use), size_of(size), f"{seconds:.1f} s"]
