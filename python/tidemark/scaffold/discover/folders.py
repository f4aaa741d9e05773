"""Find the folders of tables below the landing folder."""

import re
from collections import defaultdict
from pathlib import Path, PurePosixPath

from tidemark import storage
from tidemark.errors import ConfigError
from tidemark.ingest.file_names import DMS_TRANSACTIONS, is_change, is_load

# Folders within a table's folder: dates and numbers, year=2026, p1, fullload, cdc.
PART = re.compile(
    r"\d+([-_.:T]\d+)*Z?|[^=]+=.*|(p|part|partition|seg|segment)[-_]?\d+"
    r"|full|cdc|(full|cdc|initial)[-_]?load",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?<!\d)(19|20)\d\d")

Left = dict[str, str]


def start(root: Path, below: str) -> Path:
    """The folder `below` of the landing folder. Raises TidemarkError if one does not exist."""
    storage.at(str(root)).require()
    top = root.resolve()
    # Also accept a path relative to the working directory, such as landing/shop.
    places = [(root / below).resolve(), Path(below).resolve()]
    found = next((each for each in places if each.is_dir() and each.is_relative_to(top)), None)
    if not found:
        raise ConfigError(f"There is no folder {below} below the landing folder {root}.")
    return root / found.relative_to(top)


def files_below(root: Path, folder: Path) -> list[str]:
    """The data files below a folder, as sorted paths relative to the landing folder."""
    if not folder.is_dir():
        return []
    below = storage.entries(str(folder), folder.relative_to(root).as_posix())
    return sorted(path.removeprefix("./") for path, _ in below)


def tables_below(root: Path, folder: Path) -> tuple[dict[str, list[str]], Left]:
    """The files by their table's folder, and the skipped files and folders with the reason.

    Folders of dates and partitions belong to the table's folder above them.
    """
    found: dict[str, list[str]] = defaultdict(list)
    left: Left = {}
    for file in files_below(root, folder):
        path = PurePosixPath(file)
        parts = path.parent.parts
        # The folder of transaction files may be called `cdc`: it is CdcPath, not part of a table.
        is_of_many = DMS_TRANSACTIONS.match(path.name)
        while parts and PART.fullmatch(parts[-1]) and not (is_of_many and parts[-1].isalpha()):
            parts = parts[:-1]
        if parts:
            found["/".join(parts)].append(file)
        else:
            left[file] = "it is not in a table's folder: put it into a folder SOURCE/TABLE"
    left |= _joined(found)
    left |= _days_in_front(found)
    return found, left


def _joined(found: dict[str, list[str]]) -> Left:
    """Join partitions of a parallel load with their table's folder above them."""
    left: Left = {}
    for inner in sorted(found, reverse=True):
        outer = next((str(up) for up in PurePosixPath(inner).parents if str(up) in found), None)
        if outer is None:
            continue
        are_dms = all(is_load(file) or is_change(file) for file in found[outer])
        if are_dms and all(map(is_load, found[inner])):
            found[outer] = sorted([*found[outer], *found.pop(inner)])
        else:
            left[outer] = (
                f"it has both files and folders of tables, such as {inner}: "
                "put the files into a folder of their own"
            )
    for outer in left:
        del found[outer]
    return left


def _days_in_front(found: dict[str, list[str]]) -> Left:
    """Skip tables below a folder per day, since landing reads a table from one folder."""
    left: Left = {}
    places: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for folder in found:
        parts = PurePosixPath(folder).parts
        places[tuple(part for part in parts if not PART.fullmatch(part))].append(folder)
    for same in places.values():
        if len(same) > 1 and all(_YEAR.search(folder) for folder in same):
            left[same[0]] = (
                f"it has a part of a table, like {len(same) - 1} more folders: folders of days "
                "must be below the table's folder, not above it"
            )
            for folder in same:
                del found[folder]
    return left
