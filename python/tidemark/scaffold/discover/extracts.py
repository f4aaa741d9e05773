"""Infer a table from full extracts: columns, and the time in their paths."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from tidemark.ingest.files import time_in
from tidemark.scaffold import sampling
from tidemark.scaffold.discover.folders import PART
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

_TIMES = (
    *("%Y-%m-%dT%H-%M-%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d_%H-%M-%S", "%Y%m%d-%H%M%S"),
    *("%Y%m%d_%H%M%S", "%Y%m%dT%H%M%S", "%Y%m%d%H%M%S", "%Y-%m-%d", "%Y_%m_%d", "%Y%m%d"),
    *("year=%Y/month=%m/day=%d", "%Y/%m/%d/%H", "%Y/%m/%d"),
)
_PART_NAME = re.compile(r"part[-_]?\d", re.IGNORECASE)
_MARKER = "_SUCCESS"
_STATUS = re.compile(r"(^|_)(op|operation|status|action|mode|type|flag)$|^(cdc|change|rec|row)_")


def fill(
    table: Table,
    samples: Sequence[Sample],
    root: Path,
    files: Sequence[str],
    delimiter: str | None = None,
) -> None:
    """Infer the table from samples of extracts. Raises NoTableError for empty files."""
    table.format = "extract"
    texts = [sample.text for sample in samples if sample.type == "csv"]
    delimiter = delimiter or sampling.delimiter_of(texts)
    if delimiter != ",":
        table.settings["delimiter"] = delimiter
    set_encoding(table, samples)
    frames = [_extract_columns(sample, delimiter) for sample in samples]
    frames = [columns for columns in frames if columns]
    if not frames:
        raise NoTableError("its files are empty")
    if any(None in columns for columns in frames):
        table.settings["header"] = "none"
        places = by_place(table, max(len(columns) for columns in frames))
        frames = [dict(zip(places, columns.values(), strict=False)) for columns in frames]
    spelled: dict[str, str] = {}
    # Newest file first, since it has the table's current columns.
    named = [
        dict(zip(one_spelling(list(map(str, columns)), spelled), columns.values(), strict=True))
        for columns in reversed(frames)
    ]
    alike = [set(map(str.lower, columns)) for columns in named]
    if any(len(one & other) * 2 < min(len(one), len(other)) for one in alike for other in alike):
        table.todos.append("its files have different columns: they may belong to several tables")
    names = dict.fromkeys(name for columns in named for name in columns)
    found = {name: [each[name] for each in named if name in each] for name in names}
    declared = set_columns(table, found)
    for name in declared:
        values = [value for column in found[name] for value in column.values if value is not None]
        are_operations = values and all(value in ("I", "U", "D") for value in values)
        if are_operations and _STATUS.search(name.lower()):
            table.todos.append(
                f"{name} contains I, U, D: if the files have only changes, set status_column: "
                f"{declared[name]} and remove it from columns"
            )
    _set_times(table, root, files)

    def values_of(name: str) -> list[list[Any]]:
        if any(name not in columns for columns in named):
            return []
        return [columns[name].values for columns in named]

    find_key(table, declared, values_of)


def _extract_columns(sample: Sample, delimiter: str) -> dict[str | int | None, Column]:
    """The columns of an extract by name, or for a CSV file without names by None and numbers."""
    if sample.type == "csv":
        columns = sampling.csv_columns(sample.text, delimiter)
        if not columns or not looks_like_header(columns, expected=True):
            return {at or None: column for at, column in enumerate(columns)}
        return {first_text(column): Column(column.values[1:], is_loose=True) for column in columns}
    return dict((sample.columns or sampling.document_columns(sample.rows)).items())


def _set_times(table: Table, root: Path, files: Sequence[str]) -> None:
    """Set `time_in_name`, if all paths have a time, and `extract_is`."""
    inner = [PurePosixPath(file.removeprefix(f"{table.path}/")) for file in files]
    form = next((form for form in _TIMES if all(_time(form, path) for path in inner)), None)
    if form is None:
        parts = [path for path in inner if _is_a_part(path)]
        if len(files) > 1 and parts:
            table.todos.append(
                f"{parts[0]} looks like part of an extract, but each file would be a complete one: "
                "put the files of each extract into a folder with its time (time_in_name, "
                "extract_is)"
            )
        return
    table.settings["time_in_name"] = form
    by_time = Counter(_time(form, path) for path in inner)
    several = max(by_time.values()) > 1
    if all(_time(form, path.parent) for path in inner):
        if several or any(_PART_NAME.match(path.name) for path in inner):
            table.settings["extract_is"] = "folder"
            if any(((root / file).parent / _MARKER).exists() for file in files):
                table.settings["complete_marker"] = _MARKER
    elif several:
        table.todos.append("several of its files have the same time in their names")


def _time(form: str, path: PurePosixPath) -> datetime | None:
    """The time in a path, as landing reads it. A number of another year is hardly a time."""
    found = time_in(str(path), form)
    return found if found and 1900 <= found.year < 2100 else None


def _is_a_part(path: PurePosixPath) -> bool:
    folders = (each for each in path.parent.parts if not each.lower().startswith(("full", "cdc")))
    return bool(_PART_NAME.match(path.name)) or any(map(PART.fullmatch, folders))
