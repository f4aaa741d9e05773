"""The scenarios of tests/scenarios: what arrives in which batch, and the tables it gives.

All are built together, batch by batch. Those with the same declaration share a table.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import combinations

import pytest
import yaml

from tests import scenario
from tests.project import Project
from tests.scenario import Row, Scenario

pytestmark = pytest.mark.functional

ALL = scenario.load()
TABLES = scenario.by_table(ALL)
BATCHES = max(batch for each in ALL for batch in each.batches())
PREFIXES = {"staging": "stg", "current": "cur", "history": "hist"}
SOURCE = "scenarios"


@dataclass
class Found:
    """What the builds left behind, by table, and by scenario for the dead letters."""

    current: dict[str, list[Row]] = field(default_factory=dict)
    history: dict[str, list[Row]] = field(default_factory=dict)
    dead_letters: dict[str, list[Row]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


# --- building -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found(module_project: Callable[[], Project], request: pytest.FixtureRequest) -> Found:
    """Only the tables of the scenarios that are asked for are built."""
    return build(module_project(), scenario.asked(request, "test_scenario"))


def build(project: Project, asked: Collection[str]) -> Found:
    """Land and build the tables of these scenarios, batch by batch."""
    found = Found()
    wanted = {
        table: [one for one in sharing if one.name in asked] for table, sharing in TABLES.items()
    }
    tables = {table: sharing for table, sharing in wanted.items() if sharing}
    for table, sharing in tables.items():
        _declare(project, table, sharing[0])
    for batch in range(1, BATCHES + 1):
        changed = [table for table, sharing in tables.items() if batch in sharing[0].later]
        for table in changed:
            _declare_columns(project, table, tables[table][0].columns_at(batch))
        arrived = [table for table in tables if _land(project, table, tables[table], batch)]
        layers = ["current", "history"]
        sound = [table for table in arrived if table not in found.failures]
        models = [_model(layer, table) for table in sound for layer in layers]
        anew = tables if batch == 1 else changed
        models += [_model("staging", table) for table in anew]
        if models:
            _build(project, found, batch, models)
    for table in tables:
        found.current[table] = scenario.rows_as_text(project, _relation("current", table))
        found.history[table] = scenario.rows_as_text(project, _relation("history", table))
    _read_dead_letters(project, found)
    return found


def _model(layer: str, table: str) -> str:
    return f"{PREFIXES[layer]}_{SOURCE}__{table}"


def _relation(layer: str, table: str) -> str:
    return f"{layer}.{_model(layer, table)}"


def _declare(project: Project, table: str, one: Scenario) -> None:
    feed = {name: value for name, value in one.feed.items() if name != "key"}
    project.add(f"{SOURCE}.{table}", one.columns, one.key, **feed)
    model = f"models/history/{SOURCE}/{_model('history', table)}.sql"
    text = (project.folder / model).read_text()
    arguments = "".join(f"    {name}={value!r},\n" for name, value in one.history.items())
    project.write(model, text.replace("),\n)", f"),\n{arguments})"))


def _declare_columns(project: Project, table: str, columns: dict[str, str]) -> None:
    path = f"models/staging/{SOURCE}/_{SOURCE}__sources.yml"
    declared = yaml.safe_load((project.folder / path).read_text())
    for entry in declared["sources"][0]["tables"]:
        if entry["name"] == table:
            entry["columns"] = [{"name": name, "data_type": t} for name, t in columns.items()]
    project.write(path, yaml.safe_dump(declared, sort_keys=False))


def _land(project: Project, table: str, sharing: Iterable[Scenario], batch: int) -> int:
    files = 0
    for one in sharing:
        for name, file in one.files(batch).items():
            path = f"{SOURCE}/{table}/{one.name}/{name}"
            project.land(path, file.read_bytes(), modified=one.modified_at(batch, name))
            files += 1
    return files


def _build(project: Project, found: Found, batch: int, models: list[str]) -> None:
    result = project.dbt("build", "--select", *models)
    if result.success:
        return
    assert result.result is not None, f"build {batch} did not start: {result.exception}"
    for item in result.result.results:
        if item.status in ("error", "fail", "runtime error"):
            table = item.node.name.partition("__")[2]
            found.failures.setdefault(table, f"build {batch}, {item.node.name}: {item.message}")


def _read_dead_letters(project: Project, found: Found) -> None:
    rows = project.rows(
        f"tidemark.dead_letter where source_name = '{SOURCE}'",
        ["file", "cast(position as string)", "column", "value", "reason", "code"],
    )
    for path, *values in rows:
        _, _, name, file = path.split("/", 3)
        letter = dict(zip(("row", "column", "value", "reason", "code"), values, strict=True))
        found.dead_letters.setdefault(name, []).append({"file": file, **letter})


# --- comparing ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.slow] if each.slow else [])
        for each in ALL
    ],
)
def test_scenario(found: Found, one: Scenario) -> None:
    check(found, one)


def check(found: Found, one: Scenario) -> None:
    """The tables that were built against those that the scenario expects."""
    table = next(table for table, sharing in TABLES.items() if one in sharing)
    if table in found.failures:
        pytest.fail(found.failures[table], pytrace=False)
    current = _own(one, table, found.current[table])
    history = _own(one, table, found.history[table])
    problems = [
        *scenario.differences("current", one.expected("current"), current),
        *scenario.differences(
            "history", one.expected("history"), history, besides=("version_key",)
        ),
        *scenario.dead_letter_differences(one, found.dead_letters.get(one.name, [])),
        *_broken_promises(one, current, history),
    ]
    if problems:
        told = [f"Rule {one.rule}", one.why.strip(), "", *problems]
        pytest.fail("\n".join(told), pytrace=False)


def _own(one: Scenario, table: str, rows: list[Row]) -> list[Row]:
    """The rows of a shared table that are this scenario's, by their keys."""
    if TABLES[table] == [one]:
        return rows
    keys = one.keys()
    return [row for row in rows if tuple(row[name] or "" for name in one.key) in keys]


def _broken_promises(one: Scenario, current: list[Row], history: list[Row]) -> list[str]:
    """Rules 11 and 17, which hold in every scenario."""
    is_current = one.history.get("column_names", {}).get("is_current", "is_current")
    names = list(current[0]) if current else []
    open_rows = [
        {name: row[name] for name in names} for row in history if row[is_current] == "true"
    ]
    problems = []
    if Counter(map(repr, open_rows)) != Counter(map(repr, current)):
        problems.append("17. current is not what is open in history")
    if len({row["version_key"] for row in history}) < len(history):
        problems.append("11. two versions have one version_key")
    return problems


# --- the folders themselves -----------------------------------------------------------------


def test_no_two_scenarios_of_a_table_share_a_key() -> None:
    for sharing in scenario.by_table(ALL).values():
        keys = {one.name: one.keys() - {("",) * len(one.key)} for one in sharing}
        for one, other in combinations(keys, 2):
            assert not keys[one] & keys[other], f"{one} and {other} share keys"


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_folder_is_complete(one: Scenario) -> None:
    for table in ("current", "history"):
        assert (one.folder / "expected" / f"{table}.csv").is_file(), f"no expected/{table}.csv"
    batches = one.batches()
    assert batches == list(range(1, len(batches) + 1)), "the batches are 1, 2, ..."
    known = {"scenario.yml", "expected", *map(str, batches)}
    assert {file.name for file in one.folder.iterdir()} == known
    unknown = set(one.modified) - {f"{n}/{name}" for n in batches for name in one.files(n)}
    assert not unknown, f"modified names no file: {unknown}"


def test_readme_lists_every_scenario() -> None:
    _, _, text = (scenario.FOLDER / "README.md").read_text().partition("## All scenarios")
    listed = [line for line in text.splitlines() if line.startswith("| `")]
    assert sorted(listed) == sorted(f"| `{one.name}` | {one.rule} |" for one in ALL)
