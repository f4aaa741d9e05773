"""The work: a table as the load file of an AWS DMS task, and batches of changes to it."""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

BATCHES = 3
SCHEMA = pa.schema(
    [
        ("commit_ts", pa.timestamp("us")),
        ("id", pa.int64()),
        *((name, pa.string()) for name in ("name", "email", "city", "country", "status")),
        ("age", pa.int32()),
        ("balance", pa.decimal128(12, 2)),
        ("score", pa.float64()),
        ("is_active", pa.bool_()),
        ("signup_date", pa.date32()),
        ("updated_at", pa.timestamp("us")),
        ("notes", pa.string()),
        ("change_seq", pa.string()),
    ]
)
# The table's columns, with Spark's types.
COLUMNS = {
    "id": "bigint",
    **dict.fromkeys(("name", "email", "city", "country", "status"), "string"),
    "age": "int",
    "balance": "decimal(12,2)",
    "score": "double",
    "is_active": "boolean",
    "signup_date": "date",
    "updated_at": "timestamp",
    "notes": "string",
    "change_seq": "string",
}
_START = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def make(
    folder: Path, rows: int, changes: int, batches: int = BATCHES, *, late: float = 0.0
) -> None:
    """Write load.parquet, batch_<n>.parquet and truth.parquet, the table after all batches.

    Of the changes, a tenth are inserts and a tenth deletes. A fifth are to a key that has just
    changed, and a hundredth arrive twice. `late` is the share of changes that arrive one batch
    late, and also the share that insert a deleted key again.
    """
    folder.mkdir(parents=True)
    chance = random.Random(7)
    numbers = iter(range(1, 10**9))

    def row(key: int) -> dict[str, Any]:
        at = _START + timedelta(milliseconds=100 * (number := next(numbers)))
        return {
            "commit_ts": at,
            "id": key,
            "name": f"name {chance.randrange(10**6)}",
            "email": f"{key}.{chance.randrange(10**4)}@example.com",
            "city": f"city {chance.randrange(5000)}",
            "country": f"country {chance.randrange(200)}",
            "status": chance.choice(("new", "active", "paused", "closed")),
            "age": chance.randrange(18, 99),
            "balance": Decimal(chance.randrange(10**8)) / 100,
            "score": chance.random(),
            "is_active": chance.random() < 0.7,
            "signup_date": date(2020, 1, 1) + timedelta(days=chance.randrange(2000)),
            "updated_at": at,
            "notes": f"{chance.getrandbits(160):040x}",
            "change_seq": f"{number:020d}",
        }

    table = {key: row(key) for key in range(rows)}
    deleted: list[int] = []
    held: list[dict[str, Any]] = []
    _write(folder / "load.parquet", SCHEMA, table.values())
    keys = list(table)
    with_op = pa.schema([("Op", pa.string()), *SCHEMA])

    def events(number: int) -> Iterator[dict[str, Any]]:
        last = keys[0]
        yield from held
        held.clear()
        for _ in range(changes):
            op = chance.choices("IUD", (10, 80, 10))[0] if table else "I"
            if op == "I":
                keys.append(len(keys))
            key = keys[-1] if op == "I" else last
            while op != "I" and (key not in table or chance.random() < 0.8):
                key = chance.choice(keys)
            if deleted and chance.random() < late:
                op, key = "I", deleted.pop(chance.randrange(len(deleted)))
            last = key
            new = row(key)
            table[key] = new
            if op == "D":
                del table[key]
                deleted.append(key)
            change = {"Op": op, **new}
            if number < batches and chance.random() < late:
                held.append(change)
                continue
            for _ in range(2 if chance.random() < 0.01 else 1):
                yield change

    for number in range(1, batches + 1):
        _write(folder / f"batch_{number}.parquet", with_op, events(number))
    _write(folder / "truth.parquet", SCHEMA, table.values())


def _write(file: Path, schema: pa.Schema, rows: Any) -> None:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), file)
