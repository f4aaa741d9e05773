"""Two producers in one folder: two AWS DMS tasks that write the changes of one table by turns.

Each file is fine by itself. But together they have each change twice, and the order of one task's
files does not order the other's.
"""

import itertools
from collections.abc import Collection, Iterable
from datetime import datetime

from pyspark.sql import DataFrame

from tidemark.ingest.reasons import Reason, Why


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
    columns returns after another had replaced it, two tasks write. All files from the first other
    set on wait, because nothing shows which of them are wanted. Only files that land together are
    compared, and only files whose columns have names: those `told`. `accepted` are paths
    that someone confirmed, and of file versions that have landed.
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


def _alike(columns: str) -> tuple[str, ...]:
    return tuple(sorted(columns.lower().split(", ")))


def _difference(these: Collection[str], others: Collection[str]) -> str:
    more, less = sorted({*these} - {*others}), sorted({*others} - {*these})
    parts = [f"here also {', '.join(more)}"] * bool(more) + [f"there {', '.join(less)}"] * bool(
        less
    )
    return "; ".join(parts)
