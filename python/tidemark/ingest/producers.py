"""Two producers in one folder: two AWS DMS tasks that write the changes of one table by turns.

Each of their files reads well alone. But together they tell each change twice, and the order of
one task says nothing of the other's.
"""

import itertools
from collections.abc import Collection

from pyspark.sql import DataFrame


def refused(events: DataFrame, accepted: Collection[str]) -> dict[str, str]:
    """Why change files of this load cannot be taken, by file, until someone confirms them.

    A table's columns change now and then, and not back. Where, in the order of the files, columns
    are there again after others had taken their place, two tasks write: all files wait from the
    first of the others on, for nothing tells which of them are meant. Only what lands together is
    compared, and only files whose columns have names. `accepted` are paths that someone confirmed,
    and of file versions that have landed.
    """
    rows = (
        events.where("_file_columns is not null and not _is_initial")
        .select("_file_at", "_file", "_file_columns")
        .collect()
    )
    runs = [
        (columns, [row["_file"] for row in files])
        for columns, files in itertools.groupby(sorted(rows), lambda row: _alike(row[2]))
    ]
    sets = [columns for columns, _ in runs]
    back = [at for at, columns in enumerate(sets) if columns in sets[:at]]
    if not back:
        return {}
    first = min(sets.index(sets[at]) for at in back) + 1
    return {
        path: (
            f"its columns take turns with those of {runs[at - 1][1][-1]} "
            f"({_difference(sets[at], sets[at - 1])}): do two tasks of AWS DMS write into one "
            "folder? Give each a folder of its own; if the source changed so: tidemark confirm "
            f"{path}"
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
