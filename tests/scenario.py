"""A scenario: a folder below tests/scenarios, as its README.md explains."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.csv
import pytest
import yaml

from tests.project import Project
from tidemark.reasons import Why

FOLDER = Path(__file__).parent / "scenarios"

# What a scenario that declares nothing has.
FEED = {"format": "dms", "key": "id", "sequence": ["seq"], "timestamp_column": "ts"}
COLUMNS = {"id": "string", "x": "string", "y": "string", "seq": "bigint"}
HISTORY = {"tracked": ["x", "y"]}

# A row of a table as text; None is NULL.
Row = dict[str, str | None]

# A version as it is published: key, values, from-to.
_VERSION = re.compile(r".+ \d+-\d*")

_DATE = re.compile(r"(?P<day>\d{4}-\d{2}-\d{2})(T(?P<hour>\d{2}))?")


@dataclass(frozen=True)
class Published:
    """What somebody publishes that another product makes of the same events."""

    source: str
    case: str
    columns: dict[str, str]
    theirs: dict[str, Any]
    note: str = ""
    unit: str = "second"

    def __post_init__(self) -> None:
        if unknown := self.theirs.keys() - {"current", "history", "instead"}:
            raise ValueError(f"published.theirs has no {sorted(unknown)}")
        if not self.theirs:
            raise ValueError("published.theirs is empty")
        if self.unit not in ("second", "hour"):
            raise ValueError(f"published.unit is second or hour, not {self.unit}")
        for version in self.theirs.get("history", []):
            if not _VERSION.fullmatch(version):
                raise ValueError(f"published: a version is `1 alice 10-20`, not {version}")


@dataclass(frozen=True)
class Scenario:
    """What `scenario.yml` says, by the same names; `name` is the folder's."""

    name: str
    rule: str
    why: str
    feed: dict[str, Any] = field(default_factory=lambda: dict(FEED))
    columns: dict[str, str] = field(default_factory=lambda: dict(COLUMNS))
    history: dict[str, Any] = field(default_factory=dict)
    later: dict[int, dict[str, Any]] = field(default_factory=dict)
    modified: dict[str, datetime] = field(default_factory=dict)
    alone: bool = False
    slow: bool = False
    published: Published | None = None

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def key(self) -> list[str]:
        names = self.feed["key"]
        return [names] if isinstance(names, str) else list(names)

    @property
    def is_alone(self) -> bool:
        """Whether its table is its own: what an extract lacks would be deleted for the others."""
        return self.alone or self.feed["format"] == "extract"

    def files(self, batch: int) -> dict[str, Path]:
        """The files that land before this build; their names are paths in the feed's folder."""
        folder = self.folder / str(batch)
        return {
            file.relative_to(folder).as_posix(): file
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }

    def modified_at(self, batch: int, name: str) -> float | None:
        """When a file was written, in epoch seconds: declared, or an extract's date in its name."""
        declared = self.modified.get(f"{batch}/{name}")
        if declared:
            return declared.replace(tzinfo=UTC).timestamp()
        date = _DATE.search(name)
        if not date or self.feed["format"] != "extract":
            return None
        hour = datetime.fromisoformat(f"{date['day']}T{date['hour'] or '00'}:00:00+00:00")
        return hour.timestamp()

    def expected(self, table: str) -> tuple[list[str], list[Row]]:
        """The columns and the rows of `expected/<table>.csv`; none when there is no such file."""
        file = self.folder / "expected" / f"{table}.csv"
        return read(file) if file.is_file() else ([], [])

    def keys(self) -> set[tuple[str, ...]]:
        """The texts of all keys in its files and its expected tables."""
        rows: list[Mapping[str, str | None]] = [
            *self.expected("current")[1],
            *self.expected("history")[1],
        ]
        for batch in self.batches():
            for name, file in self.files(batch).items():
                rows += self.records(name, file, batch)
        return {tuple(row.get(name) or "" for name in self.key) for row in rows}

    def batches(self) -> list[int]:
        """The numbers of the builds before which files land."""
        return sorted(int(file.name) for file in self.folder.iterdir() if file.name.isdigit())

    def columns_at(self, batch: int) -> dict[str, str]:
        """The columns as they are declared in this build."""
        columns = dict(self.columns)
        for first, change in sorted(self.later.items()):
            if first <= batch:
                columns |= change.get("columns", {})
        return columns

    def records(self, name: str, file: Path, batch: int) -> Iterator[dict[str, str]]:
        """The records of a file, as texts."""
        is_load = name.rsplit("/")[-1].startswith("LOAD")
        has_op = self.feed["format"] == "dms" and not is_load
        names = ["Op"] if has_op else []
        if self.feed.get("timestamp_column"):
            names.append(self.feed["timestamp_column"])
        names += self.columns_at(batch)
        with_header = self.feed["format"] == "extract" or self.feed.get("header") == "all"
        with file.open(newline="") as lines:
            reader = csv.DictReader(lines, fieldnames=None if with_header else names)
            yield from reader


S = TypeVar("S", bound=Scenario)


def read(file: Path) -> tuple[list[str], list[Row]]:
    """A table of expected rows: an empty field is NULL, `""` is the empty text."""
    lines = file.read_text().splitlines()
    names = lines[0].split(",")
    if len(lines) == 1:
        return names, []
    table = pa.csv.read_csv(
        file,
        convert_options=pa.csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return names, table.to_pylist()


def load() -> list[Scenario]:
    """All scenarios, by name. Raises ValueError, with the file, when one is not well formed."""
    return load_all(Scenario, FOLDER.glob("*/scenario.yml"))


def load_all(kind: type[S], files: Iterable[Path]) -> list[S]:
    """What these YAML files say, by the names of their folders."""
    found = []
    for file in sorted(files):
        try:
            settings = yaml.safe_load(file.read_text())
            if "published" in settings:
                settings["published"] = Published(**settings["published"])
            scenario = kind(name=file.parent.name, **settings)
        except (TypeError, ValueError, yaml.YAMLError) as error:
            raise ValueError(f"{file}: {error}") from error
        if settings.keys().isdisjoint({"columns", "feed", "history"}):
            scenario.history.update(HISTORY)
        found.append(scenario)
    return found


def asked(request: pytest.FixtureRequest, test: str) -> set[str]:
    """The names of the cases with which the test runs this time."""
    return {
        str(item.callspec.id)
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == test
    }


def by_table(scenarios: list[Scenario]) -> dict[str, list[Scenario]]:
    """Scenarios with the same declaration share a table; it is called after the first of them.

    The table of those that declare nothing is called `shared`.
    """
    tables: dict[str, list[Scenario]] = {}
    name_of = {_declaration(Scenario("shared", "", "", history=dict(HISTORY))): "shared"}
    for scenario in scenarios:
        table = name_of.setdefault(_declaration(scenario), scenario.name)
        tables.setdefault(table, []).append(scenario)
    return tables


def _declaration(scenario: Scenario) -> str:
    parts = [scenario.feed, scenario.columns, scenario.history, scenario.later]
    return yaml.safe_dump([*parts, scenario.name if scenario.is_alone else ""])


# --- comparing ------------------------------------------------------------------------------


def rows_as_text(project: Project, relation: str) -> list[Row]:
    """A table as text, without the columns that begin with _."""
    if not project.spark.catalog.tableExists(relation):
        return []
    names = [name for name in project.spark.table(relation).columns if not name.startswith("_")]
    rows = project.rows(relation, [f"cast(`{name}` as string)" for name in names])
    return [dict(zip(names, row, strict=True)) for row in rows]


def differences(
    table: str,
    expected: tuple[list[str], list[Row]],
    found: list[Row],
    besides: Iterable[str] = (),
) -> list[str]:
    """What is missing in a table and what is too many, a line each; empty when it is right."""
    columns, wanted = expected
    known = {name for row in found for name in row} - set(besides)
    if found and known != set(columns):
        return [f"{table} has the columns {sorted(known)} instead of {sorted(columns)}"]
    lines = Counter(_line(columns, row) for row in wanted)
    found_lines = Counter(_line(columns, row) for row in found)
    if lines == found_lines:
        return []
    marked = [
        *[("missing: ", line) for line in (lines - found_lines).elements()],
        *[("too many:", line) for line in (found_lines - lines).elements()],
        *[("right:   ", line) for line in (lines & found_lines).elements()],
    ]
    # By key and start, so that what is missing stands beside what is there instead.
    ordered = sorted(marked, key=lambda item: item[1])
    return [f"{table}: {','.join(columns)}", *[f"  {mark} {line}" for mark, line in ordered]]


def _line(columns: list[str], row: Row) -> str:
    """A row as the expected files write it."""
    return ",".join(
        "" if (value := row[name]) is None else value if value.strip() else f'"{value}"'
        for name in columns
    )


def dead_letter_differences(one: Scenario, found: list[Row]) -> list[str]:
    """As `differences`; `...` in an expected reason stands for any text.

    Each row found also has its `code`, which must be the reason's.
    """
    columns, wanted = one.expected("dead_letter")
    columns = columns or ["file", "row", "column", "value", "reason"]
    rows = [dict(row) for row in found]
    for row in rows:
        code, reason = row.pop("code"), row["reason"]
        assert is_of_code(code, reason or ""), f"{code} is not the code of: {reason}"
        for expected in wanted:
            same_place = all(row[name] == expected[name] for name in columns if name != "reason")
            if same_place and _reads_like(row["reason"] or "", expected["reason"] or ""):
                row["reason"] = expected["reason"]
    return differences("dead_letter", (columns, wanted), rows)


def is_of_code(code: str | None, sentence: str) -> bool:
    """Whether a reason's code has this sentence, with any arguments."""
    form = re.sub(r"\\\{.*?\\\}", ".*", re.escape(Why[code].value)) if code else ""
    return re.fullmatch(form, sentence) is not None


def _reads_like(text: str, pattern: str) -> bool:
    position = 0
    *parts, last = pattern.split("...")
    for part in parts:
        position = text.find(part, position)
        if position < 0:
            return False
        position += len(part)
    return text.endswith(last) if parts else text == last
