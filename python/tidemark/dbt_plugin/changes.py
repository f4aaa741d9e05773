"""What a build must know of the changes in a log, without a query of Spark.

The functions answer the frequent cases: a first build, and later changes without a truncate. Each
gives the row of a query of the macro `scope_of_changes`, or None if only the query can tell.
In a Spark that has just started, such a query takes three seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from dbt.adapters.spark.impl import SparkAdapter

from tidemark.dbt_plugin import facts
from tidemark.ingest import direct

# See `_leading`.
_Leading = tuple[str, str, tuple[str, ...]]

_UNKNOWN = (direct.NotPlainError, pa.ArrowException)


def first_changes(self: SparkAdapter, feed: Mapping[str, Any]) -> dict[str, int] | None:
    """New on SparkAdapter, for the first build of a table: the number of changes and of keys.

    None if the log has truncates, keys that are NULL, or texts that may mean the same key.
    """
    keys = feed["key"]
    try:
        log = _log(self, feed)
        types = [feed["columns"][name] for name in keys]
        found = facts.once(self, (*keys, *types), [log], lambda: _counts(log, keys, types))
    except _UNKNOWN:
        return None
    told = dict(zip(("changes", "changed_keys"), found, strict=True))
    return told | dict.fromkeys(("truncates", "without_key", "unknown_reloads"), 0)


def _counts(log: Any, keys: Sequence[str], types: Sequence[str]) -> tuple[int, int]:
    files = facts.files_of(log)
    direct.require(files is not None and (pc.sum(files["num_records"]).as_py() or 0) <= direct.FEW)
    rows = pa.concat_tables(direct.logged(log, ["_op", *keys]))
    direct.require("T" not in pc.unique(rows["_op"]).to_pylist())
    for name, data_type in zip(keys, types, strict=True):
        direct.require(not rows[name].null_count)
        direct.require_one_spelling(rows[name], data_type)
    return rows.num_rows, rows.group_by(keys).aggregate([]).num_rows


def new_changes(
    self: SparkAdapter, feed: Mapping[str, Any], table: Any, watermark: int
) -> dict[str, int] | None:
    """New on SparkAdapter, for later builds: how many changes are new, and whether one may be late.

    Compared with the newest row of the table and the newest known delete. None if there are
    truncates, or rows of a full load among the new changes.
    """
    try:
        log = _log(self, feed)
        leading = _leading(feed)
        (_, *deleted), (count, *oldest) = facts.once(
            self,
            (watermark, *leading),
            [log],
            lambda: (
                _ends(log, leading, f"_is_delete and _load_id <= {watermark}", "D", max),
                _ends(log, leading, f"_load_id > {watermark}", "IUD", min),
            ),
        )
        known = zip(deleted, _newest(self, leading, table), strict=True)
        is_late, is_not_later = (
            any(_is_up_to(first, last) for last in ends)
            for first, ends in zip(oldest, known, strict=True)
        )
    except _UNKNOWN:
        return None
    told = {"of_keys": count, "late": int(is_late)}
    told |= {"late_or_not_later": int(is_late or is_not_later)}
    return told | dict.fromkeys(("truncates", "new_truncates", "unknown_reloads"), 0)


def _is_up_to(value: Any, end: Any) -> bool:
    if value is None or end is None:
        return False
    direct.require(type(value) is type(end))
    return bool(value <= end)


def _log(self: SparkAdapter, feed: Mapping[str, Any]) -> Any:
    """The one log of a feed that Tidemark lands, as a DeltaTable."""
    logs = [*(feed.get("logs") or ())]
    direct.require(
        len(logs) == 1 and not any(feed.get(name) for name in ("feeds", "table", "epochs"))
    )
    log = facts.opened(self, logs[0])
    direct.require(not facts.has_deleted_rows(log))
    return log


def _leading(feed: Mapping[str, Any]) -> _Leading:
    """What orders changes first: a column of the log, the type of its texts, its path in `_order`.

    A change that is newer by it is newer, whatever else is in the order.
    """
    if feed["is_placed"]:
        return "_sequence", "string", ("sequence",)
    if not feed["sequence"]:
        return "_file_at", "", ("sequence", "file_at")
    name, *others = feed["sequence"]
    return name, feed["columns"][name], ("sequence", name) if others else ("sequence",)


def _ends(
    log: Any, leading: _Leading, where: str, operations: str, end: Callable[..., Any]
) -> tuple[int, Any, Any]:
    """The number of changes, and the `end` (min or max) of their sequences and of their times.

    Only of changes with these operations, and none of an initial load.
    """
    name, data_type, _ = leading
    count = 0
    sequences: list[Any] = []
    times: list[Any] = []
    for rows in direct.logged(log, ("_op", "_is_initial", "_changed_at", name), where):
        direct.require({*pc.unique(rows["_op"]).to_pylist()} <= {*operations})
        direct.require(not pc.any(rows["_is_initial"]).as_py())
        values = direct.in_order(rows[name], data_type) if data_type else rows[name]
        direct.require(not values.null_count)
        count += rows.num_rows
        sequences += _end(values, end)
        times += _end(rows["_changed_at"], end)
    return count, end(sequences, default=None), end(times, default=None)


def _end(values: pa.ChunkedArray, end: Callable[..., Any]) -> list[Any]:
    found = pc.min_max(values)[end.__name__]
    return [found.as_py()] if found.is_valid else []


def _newest(self: SparkAdapter, leading: _Leading, relation: Any) -> tuple[Any, Any]:
    """What no sequence and no time of a table's rows is above, by the statistics of its files."""
    table = facts.opened(self, relation)
    files = facts.files_of(table)
    direct.require(files is not None and files.num_rows > 0)
    types = {field.name: field.type for field in table.schema().fields}
    found = []
    for path in (("_order", "phase"), ("_order", *leading[2]), ("_changed_at",)):
        of_type: Any = types.get(path[0])
        for name in path[1:]:
            fields = {field.name: field.type for field in getattr(of_type, "fields", ())}
            of_type = fields.get(name)
        is_told, highest = facts.bound(files, ".".join(path), getattr(of_type, "type", ""))
        direct.require(is_told)
        found.append(highest)
    phase, sequence, at = found
    # Later phases are those of reloads.
    direct.require(phase is None or phase <= 1)
    return sequence, at


METHODS = (first_changes, new_changes)
