"""AWS DMS's files: which of their columns are the task's, and which the table's."""

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
# A column may be called 2024, but not 1.5, nor as a time is written, nor as nothing.
_NO_NAME = re.compile(r"$|\d+\.\d|\d{4}-\d\d-\d\d|\d{1,3}$")
_CHANGE_SEQUENCE = re.compile(r"20\d{33}")


@dataclass(frozen=True)
class Dialect:
    """What is known of a table's files beforehand, as a feed without columns.

    Nobody may know whether change files have Op: then their samples tell.
    """

    feed: Feed
    is_op_known: bool = True

    def has_op(self, kind: str) -> bool | None:
        """Whether files of a kind have Op; None when samples must tell."""
        return None if kind == "changes" and not self.is_op_known else self.feed.needs_op(kind)


@dataclass
class _Frame:
    """The columns of one file of AWS DMS, with their names when the file has them."""

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
        """The values of a column; NULLs when the file lacks it."""
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
    """Tell what samples of full load and change files show. Raises NoTableError for empty ones.

    What is `known` beforehand is not guessed.
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
    if prefix:
        _take_before_images(table, found, prefix)
    declared = set_columns(table, found)
    changed = [frame for frame in frames if frame.kind == "changes"]
    for name, column in declared.items():
        values = [value for frame in changed for value in frame.values(name)]
        if values and all(isinstance(v, str) and _CHANGE_SEQUENCE.fullmatch(v) for v in values):
            # AWS DMS's own counter, $AR_H_CHANGE_SEQ.
            table.columns[column] = "string"
            table.settings["sequence"] = column
    # The full load has each key once; without one, what was inserted should have.
    loaded = [frame for frame in frames if frame.kind == "load" and frame.rows]

    def values_of(name: str) -> list[list[Any]]:
        if any(value is None for frame in changed for value in frame.values(name)):
            return []
        rows = (
            zip(frame.values(name), frame.operations(), strict=True) for frame in loaded or changed
        )
        return [[value for each in rows for value, op in each if op not in ("U", "D")]]

    find_key(table, declared, values_of)


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
        raise NoTableError(f"no sample can be read: {sample.path.name}: {error}") from error
    # This text stands for a value that is not there.
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
    """`header` says which files begin with column names."""
    has = {
        kind: {frame.has_header for frame in frames if frame.kind == kind}
        for kind in ("load", "changes")
    }
    load, changes = has["load"], has["changes"]
    if len(load) > 1 or len(changes) > 1 or (changes == {True} and load == {False}):
        table.todos.append("some of its files begin with column names, others do not: see header")
    elif changes == {True} or (load == {True} and not changes):
        table.settings["header"] = "all"
        if not changes:
            table.hints.append("no change file was seen: if they have no header, header is load")
    elif load == {True}:
        table.settings["header"] = "load"


def _take_op(table: Table, frames: Sequence[_Frame]) -> None:
    """Take the operation from the columns: it is AWS DMS's, not the table's."""
    _take_named_op(frames)
    _take_op_of_changes(table, frames)
    widths = {len(frame.columns) for frame in frames if frame.kind == "changes" and frame.op}
    for frame in frames:
        if frame.kind == "changes" or frame.names is not None:
            continue
        # The operation of a load is I throughout; a table of one letter there is as wide without.
        wide = not widths or len(frame.columns) - 1 in widths
        if wide and _are_operations(frame.columns[0], "I") and len(frame.columns[0].values) > 1:
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
        table.hints.append("its change files have no Op: every row of them is taken as an upsert")
        if len(changes) == len(frames):
            table.todos.append("neither a full load nor Op was seen: are its files of AWS DMS?")
    elif any(not frame.op for frame in changes):
        table.todos.append("some of its change files have Op, others do not")


def _take_known(table: Table, frames: Sequence[_Frame], known: Dialect) -> None:
    """Take what the task adds from where its settings say, and tell if it is not there."""
    # Where the task adds none, a column of that name is the table's own.
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
            f"the task says that its files have {' and '.join(sorted(missing))}, which not all of "
            "them show: they may be older than the task's settings"
        )


def _has_rows_of(column: Column, form: re.Pattern[str]) -> bool:
    """Whether most values have a form, of what rows there are: one record may be broken."""
    texts = [str(value or "") for value in column.values]
    return sum(bool(form.fullmatch(text)) for text in texts) >= 0.9 * len(texts)


def _are_operations(column: Column, allowed: str) -> bool:
    values = Counter(column.values)
    # One record may be broken, so a few others are no matter.
    return bool(values) and sum(values[op] for op in allowed) >= 0.9 * values.total()


def _take_time(table: Table, frames: Sequence[_Frame]) -> None:
    """Take the column of times that the task adds, `timestamp_column`: the first after Op."""
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
    # Without a header the name is free.
    name = next(iter(names.values()), "dms_timestamp")
    if any(frame.columns[0].is_loose for frame in frames):
        table.hints.append(
            f"{name} is taken for what the task adds: if it is the table's own, list it instead"
        )
    for frame in frames:
        frame.take(0)
    table.settings["timestamp_column"] = name


def _name_columns(table: Table, frames: Sequence[_Frame]) -> None:
    """Give files without column names those of the others, in their order; one spelling for all."""
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
            "a header must have those that are listed"
        )
    for frame in unnamed:
        frame.names = names


def _take_before_images(table: Table, found: dict[str, list[Column]], prefix: str) -> None:
    """`BI_id` beside `id` is its value before an update: no column of the table."""
    names = {name.lower() for name in found}
    images = [
        name
        for name in found
        if name.upper().startswith(prefix.upper()) and name[len(prefix) :].lower() in names
    ]
    for name in images:
        del found[name]
    if images:
        table.settings["before_image_prefix"] = images[0][: len(prefix)]


def tables_of_transactions(found: Iterable[Sample]) -> set[tuple[str, str]]:
    """(schema, table) of the changes in transaction files, as far as they are looked into."""
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
    """Tables without change files have their changes in transaction files, if these name them.

    Gives the folders with changes of tables that are not among these, and which.
    """
    left = {}
    tables = [table for table in tables if table.format == "dms" and table.origin]
    for folder, named in transactions.items():
        missing = set(named)
        for table in tables:
            if (table.origin[-1], table.folder) in named:
                table.settings["transactions_path"] = folder
                table.settings["source_table"] = f"{table.origin[-1]}.{table.folder}"
                missing.remove((table.origin[-1], table.folder))
        if missing or not named:
            names = ", ".join(".".join(each) for each in sorted(missing)) or "none that is known"
            left[folder] = f"has changes of tables without a full load here: {names}"
    return left
