"""Rule 24 across formats: the same changes give the same tables, whatever the files.

Every format's files are written with settings drawn at random (tests/formats.py), and each table
is compared with tests/oracle.py. TIDEMARK_SEED=n draws other settings and changes,
TIDEMARK_CASES=n makes n transactions; `make test-all` draws a seed of its own, too.
"""

import os
import random
from typing import Any

import pytest

from tests import formats, oracle
from tests.formats import Table
from tests.project import Project

pytestmark = pytest.mark.functional

CASES = int(os.environ.get("TIDEMARK_CASES", "150"))
SEED = int(os.environ.get("TIDEMARK_SEED", "7"))
OTHER_SEED = random.SystemRandom().randrange(1000, 10**6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED, OTHER_SEED], ids=["known", "other"])
def test_every_format_gives_the_same_tables(project: Project, seed: int) -> None:
    source = f"formats{seed}"
    tables = formats.tables(source, seed, CASES)
    for table in tables:
        settings = table.feed.settings_of(table.name)
        project.add(table.name, table.feed.columns, table.feed.key, **settings)
    arrivals = [arrival for table in tables for arrival in table.arrivals()]
    for batch in range(formats.BATCHES):
        landed: dict[str, bytes] = {}
        for arrival in arrivals:
            if arrival.batch == batch:
                # Two tables may share a file.
                landed[arrival.path] = landed.get(arrival.path, b"") + arrival.content
                project.land(arrival.path, landed[arrival.path], modified=arrival.modified)
        project.build()
        refused = dead_letters(project, source)
        assert not refused, f"{refused} {replay(seed)}"
    for table in tables:
        compare(project, table, seed)
    nothing_new_commits_nothing(project, tables)


def replay(seed: int) -> str:
    return (
        f"To repeat: TIDEMARK_SEED={seed} TIDEMARK_CASES={CASES} "
        "python -m pytest tests/functional/test_formats.py -k all"
    )


def dead_letters(project: Project, source: str) -> list[tuple[Any, ...]]:
    """One of each table's and each reason's."""
    return project.rows(
        f"tidemark.dead_letter where source_name = '{source}' group by table_name, reason",
        ["table_name", "reason", "count(*)", "first(file)", "first(raw)"],
    )


def models(table: Table) -> tuple[str, str]:
    name = table.name.replace(".", "__")
    return f"current.cur_{name}", f"history.hist_{name}"


def compare(project: Project, table: Table, seed: int) -> None:
    """Current and history against the oracle, which knows the changes and no files."""
    events = table.changes.events(table.feed.key)
    tracked = list(formats.COLUMNS)
    expected = list(oracle.current(events).values())
    versions = [
        version.row
        | {"from": version.valid_from, "to": version.valid_to}
        | {"is_current": version.valid_to is None}
        for version in oracle.history(events, tracked)
    ]
    current, history = models(table)
    agree(table, seed, current, expected, rows(project, current, tracked))
    if table.feed.has_times:
        own = ["unix_micros(valid_from) as `from`", "unix_micros(valid_to) as `to`", "is_current"]
        agree(table, seed, history, versions, rows(project, history, [*tracked, *own]))


def rows(project: Project, relation: str, columns: list[str]) -> list[dict[str, Any]]:
    found = project.spark.sql(f"select {', '.join(columns)} from {relation}")
    return list(found.toArrow().to_pylist())


def agree(
    table: Table,
    seed: int,
    what: str,
    expected: list[dict[str, Any]],
    found: list[dict[str, Any]],
) -> None:
    def by_key(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["id"], row["part"], row.get("from", 0))

    expected, found = sorted(expected, key=by_key), sorted(found, key=by_key)
    if expected == found:
        return
    lines = [f"{what}: {len(found)} rows, expected were {len(expected)}. {replay(seed)}"]
    lines.append(f"Settings: {table.feed.settings_of(table.name)}")
    lines.append(f"Drawn: {table.feed.draws.made}")
    wrong = [row for row in expected if row not in found][:3]
    extra = [row for row in found if row not in expected][:3]
    lines += [f"Expected {row}" for row in wrong] + [f"Actual   {row}" for row in extra]
    number = (wrong + extra)[0]["id"] if wrong or extra else None
    for transaction in (*table.changes.load, *table.changes.later):
        lines += [str(change) for change in transaction if change.row["id"] == number]
    pytest.fail("\n".join(lines), pytrace=False)


def nothing_new_commits_nothing(project: Project, tables: list[Table]) -> None:
    """Rule 25."""
    relations = [name for table in tables for name in (f"log_{table.name}", *models(table))]
    before = {relation: project.commits(relation) for relation in relations}
    project.build()
    assert {relation: project.commits(relation) for relation in relations} == before
