"""What a build can know of a table without a query of Spark.

A query costs Spark a second when it starts, and some tenths of one later. Delta's log has the
highest values of each file's columns, and delta-rs reads them in milliseconds.
"""

import json
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import date, datetime, timedelta
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from dbt.adapters.spark.impl import SparkAdapter
from dbt_common.invocation import get_invocation_id

from tidemark import formats
from tidemark.ingest import books, ledger, log

T = TypeVar("T")

# Types whose highest value in Delta's log is not below that of the rows: decimals and floating
# point numbers may lose digits there.
_WHOLE = ("byte", "short", "integer", "long")
_KINDS = dict.fromkeys(_WHOLE, int) | {"string": str, "timestamp": datetime, "date": date}
_SQL_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_ORDER = "_order"
# Delta cuts times to milliseconds.
_CUT = timedelta(milliseconds=1)

_one_at_a_time = threading.Lock()


def newest_rows(self: SparkAdapter, relation: Any) -> dict[str, Any] | None:
    """New on SparkAdapter, for the macro `scope_of_changes`: bounds of a table's rows.

    `applied` is the newest load, `row_count` the number of rows, with those that deletion vectors
    have deleted. `known_until` (phase and sequence) and `known_at` are SQL literals that are not
    below those of any row, or None if Delta's log does not tell. None if it tells nothing.
    """
    table = opened(self, relation)
    files = files_of(table)
    if files is None or not files.num_rows:
        return None
    is_told, applied = _highest(files, "_load_id")
    if not is_told or applied is None:
        return None
    types = {field.name: field.type for field in table.schema().fields}
    return {
        "applied": applied,
        "row_count": pc.sum(files["num_records"]).as_py(),
        "known_until": _literal(files, _ORDER, types.get(_ORDER), only=("phase", "sequence")),
        "known_at": _literal(files, "_changed_at", types.get("_changed_at")),
    }


def declared(self: SparkAdapter, relation: Any) -> dict[str, Any] | None:
    """New on SparkAdapter, for the macros `_columns`, `_types` and `_properties`.

    What a table declares: `columns` maps names to comments, `types` lower-case names to Spark's
    types, `properties` names to values. None if Spark must tell.
    """
    table = opened(self, relation)
    if table is None:
        return None
    fields = json.loads(table.schema().to_json())["fields"]
    return {
        "columns": books.comments(table),
        "types": {field["name"].lower(): _sql_type(field["type"]) for field in fields},
        "properties": dict(table.metadata().configuration),
    }


def _sql_type(told: Any) -> str:
    """A type as Spark's `describe` writes it, of one as Delta's log writes it."""
    if isinstance(told, str):
        return _SQL_TYPES.get(told, told)
    if told["type"] == "array":
        return f"array<{_sql_type(told['elementType'])}>"
    if told["type"] == "map":
        return f"map<{_sql_type(told['keyType'])},{_sql_type(told['valueType'])}>"
    fields = ",".join(f"{each['name']}:{_sql_type(each['type'])}" for each in told["fields"])
    return f"struct<{fields}>"


def note_view(self: SparkAdapter, relation: Any, text: str) -> None:
    """New on SparkAdapter, for the macro `spark__create_view_as`: dbt creates a view.

    Its cache keeps what Spark said of the view before.
    """
    texts = self.__dict__.setdefault("_tidemark_views", {})
    texts[get_invocation_id(), str(relation)] = text.strip()


def is_view_of(self: SparkAdapter, relation: Any, text: str) -> bool:
    """New on SparkAdapter, for views that only one macro writes: whether one has this text."""
    texts: dict[Any, str] = self.__dict__.get("_tidemark_views", {})
    noted = texts.get((get_invocation_id(), str(relation)))
    if noted is not None or not getattr(relation, "schema", None):
        return noted == text.strip()
    found = self.get_relation(None, relation.schema, relation.identifier)
    told = getattr(found, "information", "") or ""
    _, is_there, rest = told.partition(f"View Text: {text.strip()}\n")
    return bool(is_there) and rest.startswith("View ")


def may_begin_reload(self: SparkAdapter, log: Any) -> bool:
    """New on SparkAdapter, for the macro `log_has_reloads`: whether a query must look.

    A reload begins with a truncate at position 0, among the log's deletes.
    """
    files = files_of(opened(self, log))
    if files is None or "partition._is_delete" not in files.column_names:
        return True
    deletes = files.filter(pc.field("partition._is_delete"))
    if not deletes.num_rows:
        return False
    name = "min._position"
    is_known = name in deletes.column_names and not deletes[name].null_count
    return not is_known or pc.min(deletes[name]).as_py() <= 0


def has_all_loads(self: SparkAdapter, relation: Any, source_name: str, table_name: str) -> bool:
    """New on SparkAdapter, for the test `log_is_complete`: whether the log needs no query.

    True if Delta's log proves that each load has as many rows as the ledger says. A log whose files
    hold several loads, or lost rows, proves nothing, nor does a ledger with erased rows. Of loads
    from before a cut, rows may be gone.
    """
    table = opened(self, relation)
    files = None if has_deleted_rows(table) else files_of(table)
    cut = None if files is None else log.cut_in(table.metadata().configuration)
    known_until = cut.load_id if cut else 0
    logged = None if files is None else _rows_of_loads(files, known_until)
    own = books.without_spark() if logged is not None else None
    if own is None:
        return False
    columns = ("load_id", "file", "status", "rows")
    told = own.read_table(books.LEDGER, columns, books.is_of_table(source_name, table_name))
    if pc.any(pc.is_in(told["status"], pa.array([ledger.ERASED, "retracted"]))).as_py():
        return False
    ended = told.filter(pc.field("status").isin(["landed", "set_aside"]))
    ended = ended.filter(pc.field("load_id") > known_until)
    of_files = ended.group_by(["load_id", "file"]).aggregate([("rows", "max")])
    return _summed(of_files, "load_id", "rows_max") == logged


def ask_once(self: SparkAdapter, sql: str, logs: Sequence[Any]) -> Any:
    """New on SparkAdapter, for queries of changes that several models need.

    The first model runs the query, the others wait for its result. With logs that this process
    cannot see, or that have grown since, each model asks by itself.
    """
    tables = [opened(self, log) for log in logs]
    if not logs or None in tables:
        return self.execute(sql, fetch=True)[1]
    return once(self, sql, tables, lambda: self.execute(sql, fetch=True)[1])


def once(self: SparkAdapter, question: Any, tables: Sequence[Any], ask: Callable[[], T]) -> T:
    """The answer to a question about tables. The first model asks, the others wait for it."""
    asked = (question, *((table.metadata().id, table.version()) for table in tables))
    with _one_at_a_time:
        known: dict[Any, Future[T]] = self.__dict__.setdefault("_tidemark_answers", {})
        is_mine = asked not in known
        answer = known.setdefault(asked, Future())
    if is_mine:
        _answer(answer, ask)
    return answer.result()


def _answer(answer: "Future[T]", ask: Callable[[], T]) -> None:
    try:
        answer.set_result(ask())
    except BaseException as error:
        answer.set_exception(error)


def opened(self: SparkAdapter, relation: Any) -> Any:
    """A Delta table of this lake, or None. The catalog must have it where the lake's tables are."""
    if relation.database in formats.OTHERS:
        return None
    found = self.get_relation(None, relation.schema, relation.identifier)
    told = re.search(r"^Location: (.+?)/?$", getattr(found, "information", "") or "", re.MULTILINE)
    name = f"{relation.schema}.{relation.identifier}"
    if not told or _plain(told[1]) != _plain(books.place(name)):
        return None
    try:
        return books.opened(name)
    except Exception:  # a table that delta-rs cannot open is Spark's to read
        return None


def _plain(place: str) -> str:
    return re.sub(r"^file:/*", "/", place.strip())


def files_of(table: Any) -> pa.Table | None:
    """The files of an opened table, with their statistics; None if delta-rs cannot tell."""
    try:
        return None if table is None else pa.table(table.get_add_actions(flatten=True))
    except Exception:  # as above
        return None


def has_deleted_rows(table: Any) -> bool:
    """Whether a table's files have rows that deletion vectors have deleted."""
    try:
        return bool(pa.table(table.deletion_vectors()).num_rows)
    except Exception:  # not a table, or not one that delta-rs can read
        return True


def _rows_of_loads(files: pa.Table, after: int) -> dict[int, int] | None:
    """The number of a log's rows in each load after one, without the truncates at position 0.

    None if the statistics of some file do not tell.
    """
    names = ["num_records", "null_count._position"]
    names += [f"{bound}.{name}" for bound in ("min", "max") for name in ("_load_id", "_position")]
    if not files.num_rows:
        return {}
    if any(name not in files.column_names or files[name].null_count for name in names):
        return None
    files = files.filter(pc.field("max._load_id") > after)
    first, last = pc.field("min._position"), pc.field("max._position")
    of_several = pc.field("min._load_id") != pc.field("max._load_id")
    with_truncate = (first <= 0) & (last > 0)
    if files.filter(of_several | with_truncate | (pc.field("null_count._position") > 0)).num_rows:
        return None
    return _summed(files.filter(first > 0), "min._load_id", "num_records")


def _summed(rows: pa.Table, group: str, count: str) -> dict[int, int]:
    """The sum of a column for each value of another, without sums that are 0."""
    found = rows.group_by(group).aggregate([(count, "sum")])
    pairs = zip(found[group].to_pylist(), found[f"{count}_sum"].to_pylist(), strict=True)
    return {value: total for value, total in pairs if total}


def _highest(files: pa.Table, column: str) -> tuple[bool, Any]:
    """Whether all files tell the highest value of a column, and the value: None if all are NULL."""
    names = (f"max.{column}", f"null_count.{column}", "num_records")
    if any(name not in files.column_names for name in names):
        return False, None
    highest, nulls, rows = (files[name] for name in names)
    has_values = pc.fill_null(pc.less(nulls, rows), True)
    is_silent = pc.or_(pc.is_null(rows), pc.and_(pc.is_null(highest), has_values))
    return (False, None) if pc.any(is_silent).as_py() else (True, pc.max(highest).as_py())


def _literal(files: pa.Table, column: str, data_type: Any, only: Sequence[str] = ()) -> str | None:
    """An SQL literal that is not below any value of the column, or None if there is none.

    For a struct with the highest value of each field: no value is above it, but none may have it.
    """
    fields = getattr(data_type, "fields", None)
    if fields is not None:
        parts = []
        for field in fields:
            if not only or field.name in only:
                part = _literal(files, f"{column}.{field.name}", field.type)
                if part is None:
                    return None
                parts += [f"'{field.name}'", part]
        return f"named_struct({', '.join(parts)})"
    type_name = getattr(data_type, "type", "")
    is_told, highest = bound(files, column, type_name)
    if not is_told:
        return None
    if highest is None:
        return f"cast(null as {type_name})"
    if isinstance(highest, int):
        return f"cast({highest} as {type_name})"
    if isinstance(highest, str):
        # Spark would replace `${name}` by a setting.
        return books.literal(highest).replace("$", "\\u0024")
    text = highest.isoformat(sep=" ") if isinstance(highest, datetime) else highest.isoformat()
    return f"{type_name}'{text}'"


def bound(files: pa.Table, column: str, type_name: str) -> tuple[bool, Any]:
    """Whether files tell a value that none of a column's is above, and it: None if all are NULL."""
    try:
        is_told, highest = _highest(files, column)
        if not is_told or highest is None:
            return is_told, None
        if isinstance(highest, _KINDS.get(type_name, ())):
            return True, highest + _CUT if type_name == "timestamp" else highest
    except (ValueError, OverflowError, pa.ArrowException):
        # Times that Python does not have.
        pass
    return False, None


METHODS = (
    newest_rows,
    declared,
    note_view,
    is_view_of,
    may_begin_reload,
    has_all_loads,
    ask_once,
)
