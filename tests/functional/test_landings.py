"""The cases of tests/landings: files as producers write them, and the rows that must land.

All land together, batch by batch. Models are built only of those that say how the current table
must be.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
import yaml

from tests import scenario
from tests.landings import cases
from tests.landings.cases import SOURCE, Case
from tests.project import Project
from tests.scenario import Row

pytestmark = pytest.mark.functional

ALL = cases.load()
BATCHES = max(batch for each in ALL for batch in each.batches())
YAML = f"models/staging/{SOURCE}/_{SOURCE}__sources.yml"


@dataclass
class Found:
    """What the landings left behind, by case."""

    columns: dict[str, list[str]] = field(default_factory=dict)
    log: dict[str, list[Row]] = field(default_factory=dict)
    current: dict[str, list[Row]] = field(default_factory=dict)
    dead_letters: dict[str, list[Row]] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


# --- landing --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found(module_project: Callable[[], Project], request: pytest.FixtureRequest) -> Found:
    """Only the cases that are asked for land."""
    project = module_project()
    found = Found()
    asked = scenario.asked(request, "test_landing")
    chosen = [one for one in ALL if one.name in asked]
    for one in chosen:
        if one.is_built:
            project.add(f"{SOURCE}.{one.name}", one.columns, one.key, **_settings(one))
    for batch in range(1, BATCHES + 1):
        _declare(project, chosen, batch)
        for one in chosen:
            for name, file in one.files(batch).items():
                modified = one.modified_at(batch, name)
                project.land(f"{one.path}/{name}", cases.content(file), modified=modified)
        _land(project, found)
    _build(project, found, [one for one in chosen if one.is_built])
    sound = [one for one in chosen if one.name not in found.failures]
    with ThreadPoolExecutor() as side_by_side:
        list(side_by_side.map(lambda one: _read(project, found, one), sound))
    _read_books(project, found)
    return found


def _settings(one: Case) -> dict[str, object]:
    return {name: value for name, value in one.feed.items() if name != "key"}


def _declare(project: Project, chosen: list[Case], batch: int) -> None:
    """Write the source's YAML anew, as it is from this batch on."""
    tables = [
        {
            "name": one.name,
            "config": {"meta": {"feed": {"path": one.path, **one.feed}}},
            "columns": [
                {"name": name, "data_type": data_type}
                for name, data_type in one.columns_at(batch).items()
            ],
        }
        for one in chosen
    ]
    source = {"name": SOURCE, "schema": f"log_{SOURCE}", "tables": tables}
    project.write(YAML, yaml.safe_dump({"sources": [source]}, sort_keys=False))


def _land(project: Project, found: Found) -> None:
    """One landing of all; a feed whose declaration is refused fails alone."""
    from tidemark import feeds, storage
    from tidemark.dbt_plugin import dbt
    from tidemark.errors import ConfigError
    from tidemark.ingest import landing

    declared = []
    with project.here():
        for source in dbt.parse().sources.values():
            try:
                declared.append(feeds.feed_from_source(source.to_dict()))
            except ConfigError as error:
                found.failures[source.name] = str(error)
        good = [feed for feed in declared if feed]
        folder = storage.landing_folder()
        for landed in landing.land(project.spark, good, folder, run_id="test"):
            if landed.failure:
                found.failures[landed.feed.table] = f"landing: {landed.failure}"


def _build(project: Project, found: Found, built: list[Case]) -> None:
    from tidemark.dbt_plugin import dbt

    models = [
        f"{prefix}_{SOURCE}__{one.name}"
        for one in built
        if one.name not in found.failures
        for prefix in ("stg", "cur")
    ]
    if not models:
        return
    with dbt.as_part_of("test"):
        result = project.dbt("build", "--select", *models)
    if result.success:
        return
    assert result.result is not None, f"the build did not start: {result.exception}"
    for item in result.result.results:
        if item.status in ("error", "fail", "runtime error"):
            name = item.node.name.partition("__")[2]
            found.failures.setdefault(name, f"{item.node.name}: {item.message}")


def _read(project: Project, found: Found, one: Case) -> None:
    log = project.log(f"{SOURCE}.{one.name}")
    texts = [log[name].cast("string").alias(name) for name in log.columns]
    rows = [row.asDict() for row in log.select(texts).collect()]
    found.columns[one.name] = log.columns
    for row in rows:
        row["_file"] = row["_file"].removeprefix(f"{one.path}/")
    found.log[one.name] = _ranked(rows)
    if one.is_built:
        current = f"current.cur_{SOURCE}__{one.name}"
        found.current[one.name] = scenario.rows_as_text(project, current)


def _ranked(rows: list[Row]) -> list[Row]:
    """The rows with the rank of their `_sequence` instead of its text, which is nobody's business.

    Only rows of changes are ranked: those of an initial load are older, whatever it says.
    """
    texts = {row.get("_sequence") for row in rows if row["_is_initial"] == "false"}
    ordered = sorted(text for text in texts if text is not None)
    ranks: dict[str | None, str] = {text: str(rank) for rank, text in enumerate(ordered, 1)}
    return [
        row
        if "_sequence" not in row
        else row
        | {"_sequence": ranks.get(row["_sequence"]) if row["_is_initial"] == "false" else None}
        for row in rows
    ]


def _read_books(project: Project, found: Found) -> None:
    """The dead letters, and how many records were passed over because they are no rows."""
    letters = project.rows(
        f"tidemark.dead_letter where source_name = '{SOURCE}'",
        ["table_name", "file", "cast(position as string)", "column", "value", "reason", "code"],
    )
    for name, path, *values in letters:
        letter = dict(zip(("row", "column", "value", "reason", "code"), values, strict=True))
        file = path.removeprefix(f"{SOURCE}/{name}/")
        found.dead_letters.setdefault(name, []).append({"file": file, **letter})
    if "skipped" in project.spark.table("tidemark.ledger").columns:
        books = f"tidemark.ledger where source_name = '{SOURCE}' group by table_name"
        columns = ["table_name", "coalesce(sum(skipped), 0)"]
        found.skipped = {name: int(count) for name, count in project.rows(books, columns)}


# --- comparing ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.slow] if each.slow else [])
        for each in ALL
    ],
)
def test_landing(found: Found, one: Case) -> None:
    if one.name in found.failures:
        pytest.fail(found.failures[one.name], pytrace=False)
    problems = [
        *_log_differences(one, found),
        *scenario.dead_letter_differences(one, found.dead_letters.get(one.name, [])),
    ]
    if one.is_built:
        current = found.current[one.name]
        problems += scenario.differences("current", one.expected("current"), current)
    skipped = found.skipped.get(one.name, 0)
    if skipped != one.skipped:
        problems.append(f"{skipped} records are said to be no rows, instead of {one.skipped}")
    if problems:
        pytest.fail("\n".join([one.why.strip(), "", *problems]), pytrace=False)


def _log_differences(one: Case, found: Found) -> list[str]:
    """The expected columns are compared; the log must have no other that came from a file."""
    columns, wanted = one.expected("log")
    known = found.columns[one.name]
    declared = one.columns_at(BATCHES)
    lacking = [name for name in columns if name not in known]
    added = [name for name in known if name not in {*columns, *declared} and name[0] != "_"]
    if lacking or added:
        return [f"log lacks the columns {lacking}, has {added} too many"]
    rows = [{name: row[name] for name in columns} for row in found.log[one.name]]
    return scenario.differences("log", (columns, wanted), rows)


# --- the folders themselves -----------------------------------------------------------------


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_folder_is_complete(one: Case) -> None:
    batches = one.batches()
    assert batches == list(range(1, len(batches) + 1)), "the batches are 1, 2, ..."
    known = {"landing.yml", "expected", *map(str, batches)}
    assert {file.name for file in one.folder.iterdir()} == known
    unknown = set(one.modified) - {f"{n}/{name}" for n in batches for name in one.files(n)}
    assert not unknown, f"modified names no file: {unknown}"
    assert (one.folder / "expected" / "log.csv").is_file(), "no expected/log.csv"
    for n in batches:
        for file in one.files(n).values():
            assert len(cases.content(file)) < 20_000, f"{file} is large"


def test_readme_lists_every_case() -> None:
    text = (cases.FOLDER / "README.md").read_text()
    _, _, after = text.partition("## All cases")
    listed, _, nasty = after.partition("## Nasty inputs")
    names = [line.split("`")[1] for line in listed.splitlines() if line.startswith("| `")]
    assert sorted(names) == [one.name for one in ALL]
    shown = {
        line.split(" ")[1]: set(line.split("`")[1::2])
        for line in nasty.splitlines()
        if line.startswith("| N")
    }
    assert list(shown) == [f"N{number}" for number in range(1, 61)]
    for one in ALL:
        for number in one.nasty:
            assert one.name in shown[number], f"{number} does not name {one.name}"
