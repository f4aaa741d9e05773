"""Infer tables from the files below the landing folder: formats, columns, keys.

If the files leave something open, the table is declared but disabled, with a TODO for the user.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tidemark.errors import ConfigError, DeclarationError
from tidemark.feeds import feed_from_source
from tidemark.ingest.file_names import DMS_TRANSACTIONS, is_change, is_load
from tidemark.readers import type_of_file
from tidemark.scaffold import sampling
from tidemark.scaffold.discover import debezium, dms, extracts, folders
from tidemark.scaffold.discover.table import NoTableError, Table, check_texts, picked, samples

__all__ = ["NoTableError", "Table"]

NAME_THE_KEY = "set the key"


@dataclass
class Survey:
    """The tables and files below a folder.

    `declared` maps folders that a declared feed reads to the feed's name. `left` maps files and
    folders that belong to no table to the reason.
    """

    tables: list[Table] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


def survey(root: Path, below: str, declared: Mapping[str, str]) -> Survey:
    """Every table below the folder `below` of the landing folder `root`, still without names.

    `declared` maps the paths of declared feeds to their names. Their files are not read. Raises
    ConfigError if there are no files.
    """
    start = folders.start(root, below)
    by_folder, left = folders.tables_below(root, start)
    if not by_folder and not left:
        raise ConfigError(
            f"There are no files below {start}. Put the files of each table into a folder "
            "SOURCE/TABLE of the landing folder."
        )
    found = Survey(left=left)
    transactions: dict[str, set[tuple[str, str]]] = {}
    for folder, files in sorted(by_folder.items()):
        owner = next((name for path, name in declared.items() if overlap(folder, path)), None)
        if owner:
            found.declared[folder] = owner
            continue
        try:
            if all(DMS_TRANSACTIONS.match(PurePosixPath(file).name) for file in files):
                transactions[folder] = dms.tables_of_transactions(samples(root, files))
            else:
                found.tables.append(table_of(root, folder, files))
        except NoTableError as error:
            found.left[folder] = str(error)
    found.left |= dms.read_transactions(found.tables, transactions)
    return found


def overlap(one: str, other: str) -> bool:
    """Whether two folders are the same, or one contains the other."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def files_of(root: Path, folder: str) -> list[str]:
    """The data files below a folder of the landing folder `root`. Empty if it does not exist."""
    top = folders.start(root, "")
    return folders.files_below(root, folders.start(root, folder)) if (top / folder).is_dir() else []


def table_of(
    root: Path,
    folder: str,
    files: Sequence[str],
    *,
    wanted: str | None = None,
    delimiter: str | None = None,
    known: dms.Dialect | None = None,
    opened: sampling.Open = sampling.on_disk,
) -> Table:
    """Infer the table of these files, with the format `wanted` and `delimiter` if given.

    `known` has what is known of files of AWS DMS, and `opened` opens these. Raises NoTableError if
    the files are no table.
    """
    path = PurePosixPath(folder)
    table = Table(folder, len(files), folder=path.name, origin=path.parent.parts)
    names = [PurePosixPath(file).name for file in files]
    loads = list(filter(is_load, files))
    changes = list(filter(is_change, files))
    if wanted == "dms" or (wanted is None and (loads or changes)):
        foreign = len(files) - len(loads) - len(changes)
        if not loads and not changes:
            loads = list(files)
        if foreign:
            table.hints.append(f"{foreign} of its files have names that AWS DMS does not write")
        of_loads, of_changes = (samples(root, kind, opened) for kind in (loads, changes))
        dms.fill(table, of_loads, of_changes, delimiter, known)
    else:
        typed = [file for file in files if type_of_file(file)]
        found = samples(root, typed or files)
        events = debezium.Events.of(found)
        is_sink = all(debezium.SINK.fullmatch(name) for name in names)
        if wanted == "debezium" or (wanted is None and (events.are_many or is_sink)):
            key = debezium.message_key(root, picked(files))
            debezium.fill(table, events, names, key)
        elif not typed:
            raise NoTableError("no file name ends with .csv, .json, .jsonl, .parquet or .avro")
        else:
            if len(typed) < len(files):
                table.hints.append(f"{len(files) - len(typed)} of its files have an unknown type")
            extracts.fill(table, found, root, typed, delimiter)
    check_texts(table)
    return table


# --- names ----------------------------------------------------------------------------------------


def safe_name(name: str, otherwise: str) -> str:
    """A name for dbt: lower-case letters, digits and _, starting with a letter."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    plain = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
    if not plain:
        return otherwise
    return plain if plain[0].isalpha() else f"{otherwise}_{plain}"


def name_tables(tables: Iterable[Table], root: Path, taken: Iterable[str]) -> None:
    """Name each table: its source is the parent folder, its name the folder of its files.

    Sources with the same name are prefixed with their parent folders: `eu_shop`, `us_shop`. `taken`
    has the names (`source.table`) that are already declared.
    """
    tables = list(tables)
    used = {name.lower() for name in taken}
    top = (root.resolve().name,)
    origins = {table.origin or top for table in tables}
    for table in tables:
        own = table.origin or top
        others = origins - {own}
        sources = [_source(own[-parts:]) for parts in range(1, len(own) + 1)]
        while len(sources) > 1 and any(
            sources[0] == _source(other[-(len(own) - len(sources) + 1) :]) for other in others
        ):
            del sources[0]
        sources += [f"{sources[-1]}_{number}" for number in range(2, len(tables) + 3)]
        table.table = safe_name(table.folder, "table")
        table.source = next(name for name in sources if f"{name}.{table.table}" not in used)
        used.add(table.name)


def _source(parts: Sequence[str]) -> str:
    return safe_name("_".join(parts), "source")


def problems(table: Table, declared_in: str, shared: Mapping[str, Any]) -> list[str]:
    """The decisions that the table needs: its TODOs, then errors that landing would report.

    `shared` has the settings of its source for all tables.
    """
    feed = {**table.feed}
    if not table.key:
        # Use any column in place of a missing key, which is reported separately.
        feed["key"] = next(iter(table.columns), "")
        feed.pop("exclude_columns", None)
    if not table.columns:
        return [*(table.todos or ["list its columns with their types"]), NAME_THE_KEY]
    node = {
        "source_name": table.source,
        "name": table.table,
        "schema": f"log_{table.source}",
        "original_file_path": declared_in,
        "meta": {},
        "source_meta": {"feed": dict(shared)},
        "config": {"meta": {"feed": feed}},
        "columns": {name: {"data_type": data_type} for name, data_type in table.columns.items()},
    }
    found = list(table.todos)
    if table.is_unnamed:
        found.insert(
            0,
            f"its files have no header: set names and types of the {len(table.columns)} columns, "
            "in this order",
        )
    try:
        feed_from_source(node)
    except DeclarationError as error:
        found.append(" ".join(error.problems).rstrip("."))
    return found if table.key else [*found, NAME_THE_KEY]
