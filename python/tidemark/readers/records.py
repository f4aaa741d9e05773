"""The records of a file, and the mapping of its columns to declared ones."""

import base64
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidemark.errors import printable
from tidemark.feeds import RESERVED, Feed
from tidemark.reasons import Reason, Why

# What `_skipped` says in the one row of an extract's file that has no rows.
NO_ROWS = "no rows"

# The number of records per batch.
ROWS = 5_000

# A record's metadata, in Spark's types. If the file has column names, one of its records lists them
# in `_file_columns`.
RECORD = {
    "_file": "string",
    "_position": "bigint",
    "_raw": "string",
    "_reason": "string",
    "_code": "string",
    "_column": "string",
    "_value": "string",
    "_skipped": "string",
    "_source_op": "string",
    "_source_time": "string",
    "_sequence": "string",
    "_is_snapshot": "boolean",
    "_file_columns": "string",
    "_others": "map<string, string>",
}
_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "map<string, string>": pa.map_(pa.string(), pa.string()),
}


class _RefusedError(Exception):
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class UnreadableFileError(_RefusedError):
    """The file is refused as a whole."""


class WrongValueError(_RefusedError):
    """A value is invalid."""


_WRONG_VALUE = ("_reason", "_column", "_value")


def is_of_machine(error: Exception) -> bool:
    """Whether the machine caused the error (such as a full disk), not the file."""
    return isinstance(error, MemoryError) or bool(getattr(error, "errno", None))


def schema(feed: Feed) -> str:
    """The Spark schema of a reader's rows: a record's metadata, then its columns.

    `_others` maps the name and type of undeclared columns to their text.
    """
    own = [f"{name} {data_type}" for name, data_type in RECORD.items()]
    columns = [f"`{name}` string" for name in feed.column_names]
    return ", ".join([*own, *columns, "_file_at timestamp", "_written_at timestamp"])


def base64_of(text: str, feed: Feed) -> str:
    """A binary from a text file, encoded as `binary_text`, as base64."""
    try:
        if feed.binary_text == "utf-8":
            return base64.b64encode(text.encode()).decode()
        if feed.binary_text == "hex":
            return base64.b64encode(bytes.fromhex(re.sub(r"^(0x|\\x)", "", text))).decode()
        return base64.b64encode(base64.b64decode(text, validate=True)).decode()
    except ValueError:
        raise WrongValueError(Why.NOT_BINARY_TEXT(encoding=feed.binary_text)) from None


def binaries(name: str, columns: dict[str, Any], feed: Feed) -> dict[str, Any]:
    """Convert a text column of binaries to base64, and report invalid values."""
    texts = columns[name].to_pylist()
    wrong: dict[str, Any] = {
        key: list(columns.get(key) or [None] * len(texts)) for key in _WRONG_VALUE
    }
    for at, text in enumerate(texts):
        try:
            texts[at] = None if text is None else base64_of(text, feed)
        except WrongValueError as error:
            wrong["_reason"][at] = wrong["_reason"][at] or error.reason
            wrong["_column"][at], wrong["_value"][at] = name, text
    return {name: texts, **wrong}


@dataclass
class Records:
    """Columns of equal length: those of RECORD and declared ones. Missing columns are NULL.

    `_reason` has a Reason for each bad record, which `as_table` turns into its sentence and code.
    """

    columns: dict[str, Any] = field(default_factory=dict)
    rows: int = 0
    parts: "list[Records]" = field(default_factory=list)

    @classmethod
    def unreadable(cls, reason: Reason) -> "Records":
        """The single row of a refused file."""
        return cls({"_reason": [reason], "_value": [reason.value and printable(reason.value)]}, 1)

    @classmethod
    def from_rows(cls, rows: Sequence[dict[str, Any]]) -> "Records":
        """Create from dictionaries by column name."""
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: [row.get(name) for row in rows] for name in names}, len(rows))

    @classmethod
    def in_parts(cls, rows: Iterable[dict[str, Any]]) -> "Iterator[Records]":
        """Create from dictionaries by column name, in batches."""
        left = iter(rows)
        while part := list(itertools.islice(left, ROWS)):
            yield cls.from_rows(part)

    def telling(self, names: Sequence[str]) -> "Records":
        """Add the names of the file's columns to one of the records. Returns self."""
        if self.rows:
            self.columns["_file_columns"] = [", ".join(names), *[None] * (self.rows - 1)]
        elif self.parts:
            self.parts[0].telling(names)
        return self

    @property
    def has_rows(self) -> bool:
        """Whether there is any record, good or bad."""
        return bool(self.rows or any(part.has_rows for part in self.parts))

    def as_table(self, feed: Feed, path: str) -> pa.Table:
        """The records as an Arrow table with the columns of `schema(feed)`."""
        types = {name: _ARROW[data_type] for name, data_type in RECORD.items()}
        types |= dict.fromkeys(feed.column_names, pa.string())
        columns = self.columns
        if reasons := columns.get("_reason"):
            columns = columns | {
                "_reason": [reason and str(reason) for reason in reasons],
                "_code": [reason and reason.code.name for reason in reasons],
            }
        arrays = {}
        for name, data_type in types.items():
            values = columns.get(name)
            if name == "_file":
                values = pa.repeat(path, self.rows)
            elif values is None:
                values = pa.nulls(self.rows, data_type)
            elif isinstance(values, list):
                values = pa.array(values, data_type)
            arrays[name] = values
        return pa.concat_tables(
            [pa.table(arrays), *(part.as_table(feed, path) for part in self.parts)]
        )


def others_of(columns: dict[str, Any]) -> list[dict[str, str] | None]:
    """The undeclared columns of each record that are not NULL."""
    rows = zip(*(values.to_pylist() for values in columns.values()), strict=True)
    names = list(columns)
    return [
        {name: text for name, text in zip(names, row, strict=True) if text is not None} or None
        for row in rows
    ]


def old_keys(found: Records, before: dict[str, Any], feed: Feed) -> list[Records]:
    """Deletes of keys that updates changed (rule 9). Turns these updates into inserts."""
    if "_source_op" not in found.columns:
        return []
    meaning = dict(feed.operations)
    text_of = {meant: text for text, meant in feed.operations}
    ops = list(found.columns["_source_op"].to_pylist())
    olds = {name: values.to_pylist() for name, values in before.items()}
    news = {name: _listed(found.columns[name]) for name in before}
    changed = [
        at
        for at, op in enumerate(ops)
        if meaning.get(op or "", op) == "U"
        and any(olds[name][at] not in (None, news[name][at]) for name in before)
    ]
    if not changed:
        return []
    columns: dict[str, Any] = {
        name: [values[at] if values[at] is not None else news[name][at] for at in changed]
        for name, values in olds.items()
    }
    for name, values in found.columns.items():
        if name not in (*columns, "_others", "_raw"):
            texts = _listed(values)
            columns[name] = [texts[at] for at in changed]
    columns["_source_op"] = [text_of.get("D", "D")] * len(changed)
    for at in changed:
        ops[at] = text_of.get("I", "I")
    found.columns["_source_op"] = ops
    return [Records(columns, len(changed))]


def _listed(values: Any) -> list[Any]:
    return values if isinstance(values, list) else list(values.to_pylist())


# --- names ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Names:
    """The meaning of each column of a file, by column position.

    `before` has the before images of key columns, `others` the undeclared columns under safe
    names.
    """

    declared: dict[int, str]
    others: dict[int, str]
    op: int | None = None
    time: int | None = None
    before: dict[int, str] = field(default_factory=dict)

    def columns(
        self, column: Callable[[int], Any], type_of: Callable[[int], str] = lambda at: "string"
    ) -> dict[str, Any]:
        """The columns of the records. `column` returns the file's column at a position, as text."""
        found = {name: column(at) for at, name in self.declared.items()}
        if self.op is not None:
            found["_source_op"] = column(self.op)
        if self.time is not None:
            found["_source_time"] = column(self.time)
        if self.others:
            others = {f"{name} {type_of(at)}": column(at) for at, name in self.others.items()}
            found["_others"] = others_of(others)
        return found


def named(found: Sequence[str], feed: Feed, kind: str, *, is_whole: bool = True) -> Names:
    """The meaning of each column of a file with column names.

    Raises UnreadableFileError if a required column is missing. If not `is_whole`, as in documents,
    a missing field is NULL.
    """
    require_names_once(found)
    left = dict(enumerate(found))
    op = _take(left, feed.op_column, feed.column_names)
    if op is None and is_whole and feed.needs_op(kind):
        raise UnreadableFileError(Why.LACKS_OPERATION(column=feed.op_column))
    at_time = None
    if feed.timestamp_column and feed.timestamp_column not in feed.column_names:
        at_time = _take(left, feed.timestamp_column)
        if at_time is None and is_whole:
            raise UnreadableFileError(Why.LACKS_TIME(column=feed.timestamp_column))
    declared = declared_names(left, feed.column_names)
    missing = [name for name in feed.key if name not in declared.values()]
    if missing and is_whole:
        raise UnreadableFileError(Why.LACKS_KEY_COLUMNS(columns=", ".join(missing)))
    before = {}
    prefix = folded(feed.before_image_prefix or "")
    if prefix:
        images = {at: name for at, name in left.items() if folded(name).startswith(prefix)}
        for at in images:
            del left[at]
        before = declared_names({at: name[len(prefix) :] for at, name in images.items()}, feed.key)
    return Names(declared, other_names(left, feed), op, at_time, before)


def require_names_once(names: Sequence[str]) -> None:
    """Raise UnreadableFileError if a column's name is there twice."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UnreadableFileError(Why.REPEATS_COLUMNS(columns=", ".join(repeated)))


def declared_names(left: dict[int, str], names: Sequence[str]) -> dict[int, str]:
    """Match a file's columns to `names`, best match first. Removes matches from `left`."""
    declared: dict[int, str] = {}
    # MongoDB's _id becomes the column id, since names that start with _ are reserved.
    for alike in (str, folded, safe_name, lambda name: safe_name(name).lstrip("_")):
        for name in names:
            if name not in declared.values():
                at = next((at for at, other in left.items() if alike(other) == alike(name)), None)
                if at is not None:
                    declared[at] = name
                    del left[at]
    return declared


def other_names(left: dict[int, str], feed: Feed) -> dict[int, str]:
    """Safe names for undeclared columns, with `_2` and so on appended if a name is taken."""
    if left and feed.new_columns == "refuse":
        raise UnreadableFileError(Why.NEW_COLUMNS(columns=", ".join(left.values())))
    taken = {name.lower() for name in feed.column_names} | set(RESERVED)
    others = {}
    for at, name in left.items():
        # Names that start with _ are reserved.
        safe = base = safe_name(name).lstrip("_") or "column"
        number = 1
        while safe in taken:
            number += 1
            safe = f"{base}_{number}"
        taken.add(safe)
        others[at] = safe
    return others


def folded(name: str) -> str:
    """A column name for comparison: lower case and Unicode NFC."""
    return unicodedata.normalize("NFC", name).lower()


def safe_name(name: str) -> str:
    """A column name in lower case, with _ for characters other than letters, digits and _."""
    name = unicodedata.normalize("NFC", name)
    return re.sub(r"\W+", "_", name.strip()).strip("_" if re.search(r"\W", name) else "").lower()


def _take(left: dict[int, str], name: str | None, declared: Sequence[str] = ()) -> int | None:
    """Take a column that the producer adds from `left`. A declared name must match exactly."""
    if name is None:
        return None
    is_declared = folded(name) in [folded(each) for each in declared]
    for alike in (str,) if is_declared else (str, folded):
        for at, other in left.items():
            if alike(other) == alike(name):
                del left[at]
                return at
    return None
