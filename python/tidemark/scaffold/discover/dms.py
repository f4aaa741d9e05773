"""Infer a table from files of AWS DMS: tell the task's columns from the table's."""

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemark.feeds import Feed
from tidemark.readers import csv_files
from tidemark.readers.records import UnreadableFileError
from tidemark.scaffold import sampling
from tidemark.scaffold.discover.table import (
    NoTableError,
    Table,
    by_place,
    find_key,
    first_text,
    looks_like_header,
    one_spelling,
    set_columns,
    set_encoding,
)
from tidemark.scaffold.sampling import Column, Sample

_DMS_TIME = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\.\d{6}")
_OPERATION = re.compile("[IUD]")
# A column may be called 2024, but not 1.5, a time, or the empty text.
_NO_NAME = re.compile(r"$|\d+\.\d|\d{4}-\d\d-\d\d|\d{1,3}$")
_CHANGE_SEQUENCE = re.compile(r"20\d{33}")


@dataclass(frozen=True)
class Dialect:
    """What is known about a table's files, as a feed without columns.

    If it is not known whether change files have Op, samples decide. `images_are_of_key`: whether
    the columns with a before image are the key.
    """

    feed: Feed
    is_op_known: bool = True
    images_are_of_key: bool = False

    def has_op(self, kind: str) -> bool | None:
        """Whether files of this kind have Op. None if samples must decide."""
        return None if kind == "changes" and not self.is_op_known else self.feed.needs_op(kind)


@dataclass
class _Frame:
    """The columns of one file of AWS DMS, with their names if the file has them."""

    kind: str
    columns: list[Column]
    names: list[str] | None
    op: Column | None = None
    has_header: bool = False

    def take(self, at: int) -> Column:
        if self.names:
            self.names = [name for place, name in enumerate(self.names) if place != at]
        column = self.columns[at]
        self.columns = [each for place, each in enumerate(self.columns) if place != at]
        return column

    @property
    def rows(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def named(self, name: str) -> Column | None:
        return dict(zip(self.names or (), self.columns, strict=False)).get(name)

    def values(self, name: str) -> list[Any]:
        """The values of a column, or NULLs if the file lacks it."""
        column = self.named(name)
        return column.values if column else [None] * self.rows

    def operations(self) -> list[Any]:
        return self.op.values if self.op else ["I"] * self.rows


def fill(
    table: Table,
    loads: Sequence[Sample],
    changes: Sequence[Sample],
    delimiter: str | None = None,
    known: Dialect | None = None,
) -> None:
    """Infer the table from samples of load and change files. Raises NoTableError for empty files.

    `known` takes precedence over the samples.
    """
    table.format = "dms"
    texts = [sample.text for sample in (*loads, *changes) if sample.type == "csv"]
    if known:
        frames = [_known_frame("load", sample, known) for sample in loads]
        frames += [_known_frame("changes", sample, known) for sample in changes]
    else:
        delimiter = delimiter or sampling.delimiter_of(texts)
        frames = _guessed_frames(loads, changes, delimiter)
    frames = [frame for frame in frames if frame.columns]
    if not frames:
        raise NoTableError("its files are empty")
    if delimiter not in (None, ",") and texts:
        table.settings["delimiter"] = delimiter
    set_encoding(table, [*loads, *changes])
    if texts and not known:
        _set_header(table, frames)
    if known:
        _take_known(table, frames, known)
    else:
        _take_op(table, frames)
        _take_time(table, frames)
    _name_columns(table, frames)
    names = list(dict.fromkeys(name for frame in frames for name in frame.names or ()))
    found = {name: [c for frame in frames if (c := frame.named(name))] for name in names}
    prefix = known.feed.before_image_prefix if known else "BI_"
    with_image = _take_before_images(table, found, prefix) if prefix else []
    declared = set_columns(table, found)
    changed = [frame for frame in frames if frame.kind == "changes"]
    for name, column in declared.items():
        values = [value for frame in changed for value in frame.values(name)]
        if values and all(isinstance(v, str) and _CHANGE_SEQUENCE.fullmatch(v) for v in values):
            set_sequence(table, column)
    # The full load has each key once. Without a load, so should the inserts.
    loaded = [frame for frame in frames if frame.kind == "load" and frame.rows]

    def values_of(name: str) -> list[list[Any]]:
        if any(value is None for frame in changed for value in frame.values(name)):
            return []
        rows = (
            zip(frame.values(name), frame.operations(), strict=True) for frame in loaded or changed
        )
        return [[value for each in rows for value, op in each if op not in ("U", "D")]]

    find_key(table, declared, values_of)
    if known and known.images_are_of_key and with_image and {*with_image} <= {*declared}:
        keys = [declared[name] for name in with_image]
        table.key = keys[0] if len(keys) == 1 else keys


def set_sequence(table: Table, column: str) -> None:
    """Declare AWS DMS's own counter, $AR_H_CHANGE_SEQ, as the sequence.

    Current and history leave it out: it differs in every change, also of nothing else.
    """
    table.columns[column] = "string"
    table.settings |= {"sequence": column, "exclude_columns": column}


def _guessed_frames(
    loads: Sequence[Sample], changes: Sequence[Sample], delimiter: str
) -> list[_Frame]:
    frames = [_frame("changes", sample, delimiter) for sample in changes]
    known = next(({name.lower() for name in frame.names} for frame in frames if frame.names), set())
    return [_frame("load", sample, delimiter, known) for sample in loads] + frames


def _known_frame(kind: str, sample: Sample, known: Dialect) -> _Frame:
    if sample.type != "csv":
        return _Frame(kind, list(sample.columns.values()), list(sample.columns))
    try:
        columns = csv_files.columns_of(sample.text, known.feed)
    except UnreadableFileError as error:
        raise NoTableError(f"no sample is readable: {sample.path.name}: {error}") from error
    # The placeholder for a missing value.
    absent = known.feed.unavailable_value or None
    values = [[None if each == absent else each for each in column] for column in columns]
    names = None
    if known.feed.has_header(kind):
        names = [str(column[0] or "") for column in values]
        values = [column[1:] for column in values]
    return _Frame(
        kind, [Column(each, is_loose=True) for each in values], names, has_header=bool(names)
    )


def _frame(kind: str, sample: Sample, delimiter: str, known: Iterable[str] = ()) -> _Frame:
    if sample.type != "csv":
        return _Frame(kind, list(sample.columns.values()), list(sample.columns))
    columns = sampling.csv_columns(sample.text, delimiter)
    found = [first_text(column) for column in columns]
    operations = {str(value).upper() for value in columns[0].values} if columns else set()
    names = [name.lower() for name in found]
    if "op" in names[:2] or (names and set(names) - {"op"} <= set(known)):
        has_header = True
    elif operations and operations <= {"I", "U", "D"}:
        has_header = False
    else:
        has_header = looks_like_header(columns)
    if has_header:
        columns = [Column(column.values[1:], is_loose=True) for column in columns]
    return _Frame(kind, columns, found if has_header else None, has_header=has_header)


def _set_header(table: Table, frames: Sequence[_Frame]) -> None:
    """Set `header`, which lists the files that start with column names."""
    has = {
        kind: {frame.has_header for frame in frames if frame.kind == kind}
        for kind in ("load", "changes")
    }
    load, changes = has["load"], has["changes"]
    if len(load) > 1 or len(changes) > 1 or (changes == {True} and load == {False}):
        table.todos.append("some of its files start with column names, others do not: see header")
    elif changes == {True} or (load == {True} and not changes):
        table.settings["header"] = "all"
        if not changes:
            table.hints.append(
                "no change file found: if change files have no header, set header: load"
            )
    elif load == {True}:
        table.settings["header"] = "load"


def _take_op(table: Table, frames: Sequence[_Frame]) -> None:
    """Separate the operation, which AWS DMS adds, from the table's columns."""
    _take_named_op(frames)
    _take_op_of_changes(table, frames)
    widths = {len(frame.columns) for frame in frames if frame.kind == "changes" and frame.op}
    for frame in frames:
        if frame.kind == "changes" or frame.names is not None:
            continue
        # The operation in a load is always I. If it is a column of the table, the width differs.
        rest = len(frame.columns) - 1
        wide = rest in widths if widths else rest > 0
        if wide and _are_operations(frame.columns[0], "I"):
            frame.op = frame.take(0)
            table.settings["op_in_load"] = True


def _take_named_op(frames: Sequence[_Frame]) -> None:
    for frame in frames:
        names = [name.lower() for name in (frame.names or ())[:2]]
        frame.op = frame.take(names.index("op")) if "op" in names else None


def _take_op_of_changes(table: Table, frames: Sequence[_Frame]) -> None:
    changes = [frame for frame in frames if frame.kind == "changes"]
    for frame in changes:
        if frame.names is None and _are_operations(frame.columns[0], "IUD"):
            frame.op = frame.take(0)
    if changes and not any(frame.op for frame in changes):
        table.settings["op_in_changes"] = False
        table.hints.append("its change files have no Op: each of their rows is an upsert")
        if len(changes) == len(frames):
            table.todos.append("no full load and no Op found: check that AWS DMS wrote its files")
    elif any(not frame.op for frame in changes):
        table.todos.append("some of its change files have Op, others do not")


def _take_known(table: Table, frames: Sequence[_Frame], known: Dialect) -> None:
    """Separate the columns that the task's settings add, and report missing ones."""
    # If the task adds no Op, a column with this name belongs to the table.
    _take_named_op([frame for frame in frames if known.has_op(frame.kind) is not False])
    if not known.is_op_known:
        _take_op_of_changes(table, frames)
    missing = set()
    for frame in frames:
        has_op = known.has_op(frame.kind)
        if has_op and frame.names is None:
            frame.op = frame.take(0)
        if has_op and not (frame.op and _has_rows_of(frame.op, _OPERATION)):
            missing.add("Op")
        time = known.feed.timestamp_column
        if time:
            names = [name.lower() for name in frame.names or ()]
            if frame.names is None and frame.columns:
                found = frame.take(0)
            elif time.lower() in names:
                found = frame.take(names.index(time.lower()))
            else:
                found = Column([""])
            if not _has_rows_of(found, _DMS_TIME):
                missing.add(time)
        if frame.has_header and any(map(_NO_NAME.match, frame.names or ())):
            missing.add("a header")
    if missing:
        table.todos.append(
            f"by the task's settings its files have {' and '.join(sorted(missing))}, but some do "
            "not: they may be older than the settings"
        )


def _has_rows_of(column: Column, form: re.Pattern[str]) -> bool:
    """Whether most values match a pattern. A few records may be broken."""
    texts = [str(value or "") for value in column.values]
    return sum(bool(form.fullmatch(text)) for text in texts) >= 0.9 * len(texts)


def _are_operations(column: Column, allowed: str) -> bool:
    values = Counter(column.values)
    # A few records may be broken.
    return bool(values) and sum(values[op] for op in allowed) >= 0.9 * values.total()


def _take_time(table: Table, frames: Sequence[_Frame]) -> None:
    """Separate the `timestamp_column` that the task adds: the first column after Op."""
    with_rows = [frame for frame in frames if frame.columns and frame.columns[0].values]
    if not with_rows or any(len(frame.columns) < 2 for frame in frames):
        return
    for frame in with_rows:
        column = frame.columns[0]
        is_text = column.is_loose or column.type == "string"
        if not is_text or not all(
            isinstance(value, str) and _DMS_TIME.fullmatch(value) for value in column.values
        ):
            return
    names = {frame.names[0].lower(): frame.names[0] for frame in frames if frame.names}
    if len(names) > 1:
        return
    # Without a header, any name will do.
    name = next(iter(names.values()), "dms_timestamp")
    if any(frame.columns[0].is_loose for frame in frames):
        table.hints.append(
            f"{name} is assumed to be added by the task: if it is a column of the table, remove "
            "timestamp_column and list it in columns"
        )
    for frame in frames:
        frame.take(0)
    table.settings["timestamp_column"] = name


def _name_columns(table: Table, frames: Sequence[_Frame]) -> None:
    """Give files without column names those of the other files, with one spelling for all."""
    spelled: dict[str, str] = {}
    for frame in frames:
        if frame.names:
            frame.names = one_spelling(frame.names, spelled)
    unnamed = [frame for frame in frames if frame.names is None]
    if not unnamed:
        return
    names = list(spelled.values())
    if not names:
        names = by_place(table, max(len(frame.columns) for frame in unnamed))
    widths = {len(frame.columns) for frame in unnamed} | {len(names)}
    if len(widths) > 1:
        table.todos.append(
            f"its records have {' or '.join(map(str, sorted(widths)))} columns: all files without "
            "a header must have the listed columns"
        )
    for frame in unnamed:
        frame.names = names


def _take_before_images(table: Table, found: dict[str, list[Column]], prefix: str) -> list[str]:
    """Remove before images: `BI_id` next to `id` is its value before an update.

    Gives the names of the columns that have one.
    """
    names = {name.lower(): name for name in found}
    images = {
        name: names[name[len(prefix) :].lower()]
        for name in found
        if name.upper().startswith(prefix.upper()) and name[len(prefix) :].lower() in names
    }
    for name in images:
        del found[name]
    if images:
        table.settings["before_image_prefix"] = next(iter(images))[: len(prefix)]
    return list(images.values())


def tables_of_transactions(found: Iterable[Sample]) -> set[tuple[str, str]]:
    """The (schema, table) pairs in samples of transaction files."""
    named = set()
    for sample in found:
        delimiter = sampling.delimiter_of([sample.text])
        for record in sampling.records(sample.text, delimiter, 10_000):
            if len(record) > 3:
                named.add((record[2], record[1]))
    return named


def read_transactions(
    tables: Iterable[Table], transactions: Mapping[str, set[tuple[str, str]]]
) -> dict[str, str]:
    """Set `transactions_path` for tables with changes in transaction files.

    Regions may have tables of the same name: the nearest table and folder belong together. Returns
    the folders with changes of other tables, and why they are left.
    """
    left = {}
    of_name: dict[tuple[str, str], list[Table]] = {}
    for table in tables:
        if table.format == "dms" and table.origin:
            of_name.setdefault((table.origin[-1], table.folder), []).append(table)
    for folder, named in transactions.items():
        missing, reasons = [], []
        for name in sorted(named):
            near = _nearest(folder, of_name.get(name, []))
            rivals = [other for other, names in transactions.items() if name in names]
            if len(near) > 1:
                paths = ", ".join(table.path for table in near)
                reasons.append(f"it has changes of a table in several folders: {paths}")
            elif near and _near(near[0], folder) == max(_near(near[0], each) for each in rivals):
                near[0].settings["transactions_path"] = folder
                near[0].settings["source_table"] = ".".join(name)
            else:
                missing.append(name)
        if missing or not named:
            names = ", ".join(map(".".join, missing)) or "unknown tables"
            reasons.append(f"it has changes of tables without a full load here: {names}")
        if reasons:
            left[folder] = "; ".join(reasons)
    return left


def _nearest(folder: str, tables: Sequence[Table]) -> list[Table]:
    """The tables that share most of their path with a folder."""
    most = max((_near(table, folder) for table in tables), default=0)
    return [table for table in tables if _near(table, folder) == most]


def _near(table: Table, folder: str) -> int:
    return len(posixpath.commonpath([table.path, folder]))
