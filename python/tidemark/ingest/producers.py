"""Two producers in one folder: two AWS DMS tasks that write the changes of one table by turns.

Each file is fine by itself. But together they have each change twice, and the order of one task's
files does not order the other's.
"""

import itertools
from collections.abc import Collection, Iterable
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark.ingest import events
from tidemark.reasons import Reason, Why


def names_told(found: DataFrame) -> list[tuple[datetime, str, str]]:
    """Time, path and column names of each change file among the events that has any."""
    return [
        (row["_file_at"], row["_file"], row["_file_columns"])
        for row in found.where("_file_columns is not null and not _is_initial")
        .select("_file_at", "_file", "_file_columns")
        .collect()
    ]


def refused(
    told: Iterable[tuple[datetime, str, str]], accepted: Collection[str]
) -> dict[str, Reason]:
    """The change files of this load that are refused until someone confirms them, and why.

    A table's columns change now and then, and not back. If in the order of the files a set of
    columns returns after another had replaced it, two tasks write, or one `is_one_that_repeats`.
    All files from the first other set on wait, because nothing shows which of them are wanted. Only
    files that land together are compared, and only files whose columns have names: those `told`.
    `accepted` are paths that someone confirmed, and of file versions that have landed.
    """
    runs = [
        (columns, [path for _, path, _ in files])
        for columns, files in itertools.groupby(sorted(told), lambda row: _alike(row[2]))
    ]
    sets = [columns for columns, _ in runs]
    back = [at for at, columns in enumerate(sets) if columns in sets[:at]]
    if not back:
        return {}
    first = min(sets.index(sets[at]) for at in back) + 1
    return {
        path: Why.COLUMNS_TAKE_TURNS(
            other=runs[at - 1][1][-1], difference=_difference(sets[at], sets[at - 1]), file=path
        )
        for at in range(first, max(back) + 1)
        for path in runs[at][1]
        if path not in accepted
    }


def is_one_that_repeats(told: Iterable[tuple[datetime, str, str]], found: DataFrame) -> bool:
    """Whether the changes show that one task wrote these files, and repeated some changes.

    A task that goes on from an earlier place repeats changes from before a column was added behind
    changes with that column. The source's own times tell: each set of columns was in effect for a
    time in which no other one was. The changes of two tasks are of the same times. Without times
    in the files, or if times of two sets touch, nothing is shown.
    """
    sets = {path: _alike(columns) for _, path, columns in told}
    spans: dict[tuple[str, ...], tuple[datetime, datetime]] = {}
    for row in (
        found.where(f"{events.IS_GOOD} and not _is_initial")
        .groupBy("_file")
        .agg(
            F.min("_source_at").alias("first"),
            F.max("_source_at").alias("last"),
            F.expr("bool_or(_source_at is null)").alias("lacks_time"),
        )
        .collect()
    ):
        if row["lacks_time"] or row["_file"] not in sets:
            return False
        span = spans.get(sets[row["_file"]], (row["first"], row["last"]))
        spans[sets[row["_file"]]] = min(span[0], row["first"]), max(span[1], row["last"])
    ordered = sorted(spans.values())
    return all(one[1] < other[0] for one, other in itertools.pairwise(ordered))


def _alike(columns: str) -> tuple[str, ...]:
    return tuple(sorted(columns.lower().split(", ")))


def _difference(these: Collection[str], others: Collection[str]) -> str:
    more, less = sorted({*these} - {*others}), sorted({*others} - {*these})
    parts = [f"here also {', '.join(more)}"] * bool(more) + [f"there {', '.join(less)}"] * bool(
        less
    )
    return "; ".join(parts)
