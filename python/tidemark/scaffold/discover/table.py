"""A table as inferred from its files: columns, key, and open decisions."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidemark.feeds import COLUMN_NAME, RESERVED
from tidemark.readers.records import declared_names, safe_name
from tidemark.scaffold import sampling
from tidemark.scaffold.sampling import Column, Sample, UnreadableSampleError

_NAME_LIKE = re.compile(r"[^\W\d][\w $#.()/%-]*")
_IRREGULAR = {"people": "person", "children": "child", "men": "man", "women": "woman"}


@dataclass
class Table:
    """A table as inferred from its files.

    `todos` are decisions that it needs before it can run, `hints` are comments for the YAML.
    """

    path: str
    files: int
    format: str = "extract"
    columns: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    key: str | list[str] | None = None
    todos: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    origin: tuple[str, ...] = ()
    folder: str = ""
    source: str = ""
    table: str = ""
    # Whether no file has column names, so that `columns` has placeholders.
    is_unnamed: bool = False

    @property
    def name(self) -> str:
        """`source.table`."""
        return f"{self.source}.{self.table}"

    @property
    def feed(self) -> dict[str, Any]:
        """The settings of `config.meta.feed`."""
        settings = dict(self.settings)
        if settings.get("source_table") == self.name:
            del settings["source_table"]
        return {"format": self.format, "path": self.path, "key": self.key or [], **settings}


class NoTableError(Exception):
    """The files of a folder are not a table that landing can read, with the reason."""


def picked(files: Sequence[str]) -> list[str]:
    """The files to sample: the first, the middle and the last one."""
    places = {0, len(files) // 2, len(files) - 1} if files else set()
    return [files[at] for at in sorted(places)]


def samples(
    root: Path, files: Sequence[str], opened: sampling.Open = sampling.on_disk
) -> list[Sample]:
    """The start of the first, the middle and the last file, as far as they are readable."""
    found, reasons = [], []
    for file in picked(files):
        try:
            found.append(sampling.read(root / file, opened))
        except UnreadableSampleError as error:
            reasons.append(f"{file}: {error}")
    if files and not found:
        raise NoTableError(f"no sample is readable: {'; '.join(reasons)}")
    return found


def check_texts(table: Table) -> None:
    """Raise NoTableError for names that dbt would render as Jinja, or that are not printable."""
    texts = [table.path, *(str(value) for value in table.settings.values())]
    if any(mark in text for text in texts for mark in ("{{", "{%", "{#")):
        raise NoTableError("its name contains {{, {% or {#, which dbt reads as Jinja: rename it")
    if any(not character.isprintable() for text in texts for character in text.replace("\t", "")):
        raise NoTableError("its name has unprintable characters: rename it")


def set_columns(table: Table, found: Mapping[str, Sequence[Column]]) -> dict[str, str]:
    """Declare the columns under valid names. Returns these by the name in the files."""
    names = [name for name in found if name]
    wanted: dict[str, str] = {}
    for name in names:
        plain = name if COLUMN_NAME.fullmatch(name) else safe_name(name).lstrip("_")
        taken = {other.lower() for other in (*wanted.values(), *RESERVED)}
        if COLUMN_NAME.fullmatch(plain) and plain.lower() not in taken:
            wanted[name] = plain
    # Landing must match each column to its declared name.
    at_place = declared_names(dict(enumerate(names)), list(wanted.values()))
    declared = {names[at]: name for at, name in at_place.items() if wanted.get(names[at]) == name}
    declared = {name: declared[name] for name in names if name in declared}
    table.columns = {name: sampling.spark_type(name, found[of]) for of, name in declared.items()}
    for of, name in declared.items():
        odd = sampling.odd_texts(found[of]) if table.columns[name] == "string" else []
        if odd:
            table.hints.append(
                f"{name} is a string because of {', '.join(odd)}; the rest are numbers"
            )
    left = [name for name in names if name not in declared]
    if left:
        table.hints.append(
            f"{', '.join(left)}: cannot be declared under this name; landing adds it under another"
        )
    return declared


def find_key(
    table: Table, declared: Mapping[str, str], values_of: Callable[[str], Sequence[Sequence[Any]]]
) -> None:
    """Set the key to `id` or `<table>_id`, if that column is unique and never NULL.

    `values_of` returns a column's values, in groups in which each key may occur only once.
    """
    for candidate in ["id", *(f"{name}id" for name in _singulars(table.folder))]:
        for name, column in declared.items():
            if re.sub(r"[^a-z0-9]", "", name.lower()) == candidate:
                groups = [group for group in values_of(name) if group]
                if groups and all(_are_unique(group) for group in groups):
                    table.key = column
                    return


def _are_unique(values: Sequence[Any]) -> bool:
    if any(value in (None, "") or isinstance(value, list | dict) for value in values):
        return False
    return len(set(values)) == len(values)


def _singulars(name: str) -> list[str]:
    """A table's name and its possible singulars, without separators."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    last = re.split(r"[^a-z0-9]", name.lower())[-1]
    found = [plain]
    if last in _IRREGULAR:
        found.append(plain.removesuffix(last) + _IRREGULAR[last])
    for ending, singular in (("ies", "y"), ("es", ""), ("s", "")):
        if plain.endswith(ending) and len(plain) > len(ending) + 1:
            found.append(plain.removesuffix(ending) + singular)
    return found


def first_text(column: Column) -> str:
    """The first value of a column in a CSV file, which may be its name."""
    return str(column.values[0] or "").strip() if column.values else ""


def looks_like_header(columns: Sequence[Column], *, expected: bool = False) -> bool:
    """Whether the first record of a CSV file is a header.

    Its values must be distinct, and most must look like names. One of these columns must have other
    values, such as numbers or dates. If a header is `expected`, it is enough that all look like
    names.
    """
    names = [first_text(column) for column in columns]
    if len(set(names)) < len(names):
        return False
    types = {sampling.type_of_texts([name]) for name in names if name}
    # A year may be a name, but not a date or a price.
    if types - {"string", "bigint"}:
        return False
    like_names = [bool(_NAME_LIKE.fullmatch(name)) for name in names]
    if expected and names and all(like_names):
        return True
    below = [{value for value in column.values[1:] if value} for column in columns]
    return 2 * sum(like_names) >= len(names) and any(
        is_name and values and sampling.type_of_texts(values) != "string"
        for is_name, values in zip(like_names, below, strict=True)
    )


def one_spelling(names: Sequence[str], known: dict[str, str]) -> list[str]:
    """The names of a file's columns, in the letter case of earlier files.

    `known` maps lower case to these spellings and is updated. Names in one file stay distinct.
    """
    return [
        name if known.get(name.lower()) in names else known.setdefault(name.lower(), name)
        for name in names
    ]


def set_encoding(table: Table, samples: Iterable[Sample]) -> None:
    """Set `encoding` if the text of a file is not UTF-8."""
    odd = {sample.encoding for sample in samples} - {"utf-8"}
    if "utf-16" in odd:
        table.settings["encoding"] = "utf-16"
    elif odd:
        table.todos.append("its text is not UTF-8: set its encoding, such as encoding: latin-1")


def by_place(table: Table, width: int) -> list[str]:
    """Placeholder names for the columns of files without names."""
    table.is_unnamed = True
    return [f"column_{at}" for at in range(1, width + 1)]
