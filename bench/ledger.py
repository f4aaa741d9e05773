"""Measure what a look at a large ledger costs: `python -m bench.ledger [ROWS]` (2,000,000).

A ledger of so many rows, two for each of 30 tables' files, is made in a folder of its own. Then
a process of its own reads it as a run does, for 1,000 files that are there, all of them known.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime

TABLES = 30
LISTED = 1_000
AT = datetime(2026, 1, 1, tzinfo=UTC)


def _path(number: int) -> str:
    return f"shop/t{number % TABLES}/2026/01/01/20260101-{number:09d}.parquet"


def make(rows: int) -> None:
    """Write the tables of the lake, all empty but the ledger."""
    import pyarrow as pa
    from deltalake import write_deltalake

    from tidemark.ingest import books

    for table in books.TABLES:
        schema = books.schema(table)
        write_deltalake(books.place(table), schema.empty_table(), mode="append")
    numbers = range(rows // 2)
    for status in ("planned", "landed"):
        columns = {
            "load_id": [number // TABLES + 1 for number in numbers],
            "source_name": ["shop"] * len(numbers),
            "table_name": [f"t{number % TABLES}" for number in numbers],
            "file": [_path(number) for number in numbers],
            "size": [number + 100 for number in numbers],
            "status": [status] * len(numbers),
            **dict.fromkeys(("modified", "file_at", "at", "newest_change"), [AT] * len(numbers)),
        }
        schema = books.schema(books.LEDGER)
        arrays = [
            pa.array(columns.get(field.name, [None] * len(numbers)), field.type) for field in schema
        ]
        write_deltalake(
            books.place(books.LEDGER), pa.Table.from_arrays(arrays, schema=schema), mode="append"
        )


def read(rows: int) -> None:
    """Read it as a run does, and print what that took."""
    from tidemark.ingest import books, ledger
    from tidemark.ingest.files import LandedFile

    own = books.without_spark()
    assert own
    listed: dict[str, list[LandedFile]] = {}
    for number in range(rows // 2 - LISTED, rows // 2):
        file = LandedFile(AT, _path(number), "changes", number + 100, AT)
        listed.setdefault(f"shop.t{number % TABLES}", []).append(file)
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    book = ledger.read(own, listed)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    known = sum(len(book.known_paths(name)) for name in listed)
    print(
        f"{rows} rows, {LISTED} files there, {known} of them known: {seconds:.1f} s, "
        f"{peak >> 10} MB at the most ({before >> 10} MB before)"
    )


def main() -> None:
    """Make and read, each in a process of its own."""
    rows = sys.argv[1] if len(sys.argv) > 1 else "2000000"
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as lake:
        for step in ("make", "read"):
            subprocess.run(
                [sys.executable, "-m", "bench.ledger", rows, step],
                env=os.environ | {"TIDEMARK_LAKE": lake},
                check=True,
            )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        {"make": make, "read": read}[sys.argv[2]](int(sys.argv[1]))
    else:
        main()
