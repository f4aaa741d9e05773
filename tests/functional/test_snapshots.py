"""dbt's snapshots on Spark and Delta: what each setting keeps, and which keys are refused.

One project takes its snapshots three times; `STEPS` says what each source holds by then.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.project import Project

pytestmark = pytest.mark.functional

# Two pairs of keys whose parts give one text when they are put together.
TWINS = "('ab', 'c', {}), ('a', 'bc', {}), ('a|', 'b', {}), ('a', '|b', {}), ('', 'x', {})"

STEPS = {
    # A key is deleted and comes back, another changes, '' is a key like others.
    "pairs": {
        1: f"values {TWINS.format(1, 1, 1, 1, 1)} as t(region, id, n)",
        2: "values ('ab', 'c', 1), ('a', 'bc', 2), ('a|', 'b', 1), ('', 'x', 1) t(region, id, n)",
        3: f"values {TWINS.format(1, 2, 1, 1, 1)} as t(region, id, n)",
    },
    # All rows have one time; then one key alone has a newer one, and one is away for a while.
    "timed": {
        1: f"values {TWINS.format(1, 1, 1, 1, 1)} as t(region, id, t)",
        2: "values ('ab', 'c', 1), ('a|', 'b', 2), ('a', '|b', 1), ('', 'x', 1) t(region, id, t)",
        3: f"values {TWINS.format(1, 1, 2, 1, 1)} as t(region, id, t)",
    },
    # A column comes and goes.
    "shapes": {
        1: "values (1, 'ann'), (2, 'bob') as t(id, name)",
        2: "values (1, 'ann', 'x'), (2, 'bob', 'y') as t(id, name, note)",
        3: "values (1, 'ann'), (2, 'bea') as t(id, name)",
    },
    "always_bad": {
        1: "values (7, 'a'), (7, 'b'), (null, 'c') as t(id, name)",
        2: "values (7, 'a'), (7, 'a') as t(id, name)",
        3: "values (7, 'a'), (null, 'b') as t(id, name)",
    },
    "good_then_bad": {
        1: "values ('eu', 1, 'a'), ('us', 1, 'b') as t(region, id, name)",
        2: "values ('eu', 1, 'z'), ('us', 1, 'b'), ('us', 1, 'c') as t(region, id, name)",
        3: "values ('eu', 1, 'z'), (null, 1, 'b'), ('', null, 'b') as t(region, id, name)",
    },
}

SNAPSHOTS = """
sources:
  - name: snaps
    tables:
      [{name: pairs}, {name: timed}, {name: shapes}, {name: always_bad}, {name: good_then_bad}]

snapshots:
  - name: pairs_marked
    relation: source('snaps', 'pairs')
    config:
      schema: snaps_made
      strategy: check
      check_cols: all
      unique_key: [region, id]
      hard_deletes: new_record
      snapshot_meta_column_names:
        {dbt_valid_from: since, dbt_valid_to: until, dbt_scd_id: version_id,
         dbt_updated_at: seen_at, dbt_is_deleted: is_gone}
  - name: pairs_kept
    relation: source('snaps', 'pairs')
    # In the metastore, names have no capitals.
    config: {schema: Snaps_Made, strategy: check, check_cols: [n], unique_key: [region, id]}
  - name: timed_closed
    relation: ref('timed')
    config: &timed
      {schema: snaps_made, strategy: timestamp, updated_at: at, unique_key: [region, id],
       hard_deletes: invalidate}
  - name: timed_marked
    relation: ref('timed')
    config: {<<: *timed, hard_deletes: new_record, dbt_valid_to_current: "timestamp'9999-12-31'"}
  - name: shapes_closed
    relation: source('snaps', 'shapes')
    config:
      {schema: snaps_made, strategy: check, check_cols: [name], unique_key: id,
       hard_deletes: invalidate, dbt_valid_to_current: "timestamp'9999-12-31'"}
  - name: always_bad
    relation: source('snaps', 'always_bad')
    config: {schema: snaps_made, strategy: check, check_cols: all, unique_key: id}
  - name: good_then_bad
    relation: source('snaps', 'good_then_bad')
    config: {schema: snaps_made, strategy: check, check_cols: all, unique_key: [region, id]}
"""

TIMED = """
{{ config(materialized='ephemeral') }}
select region, id, timestamp'2024-01-01' + make_dt_interval(t) as at
from {{ source('snaps', 'timed') }}
"""


@dataclass
class Taken:
    """The project after its three snapshots, and what dbt said of each step's snapshots."""

    project: Project
    said: list[dict[str, str]] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.project.spark.sql(query).collect()]


@pytest.fixture(scope="module")
def taken(module_project: Callable[[], Project]) -> Taken:
    taken = Taken(module_project())
    taken.project.write("snapshots/snapshots.yml", SNAPSHOTS)
    taken.project.write("models/timed.sql", TIMED)
    taken.project.spark.sql("create schema snaps")
    for step in (1, 2, 3):
        for name, holds in STEPS.items():
            taken.project.spark.sql(
                f"create or replace view snaps.{name} as select * from {holds[step]}"
            )
        result = taken.project.dbt("snapshot", "--threads", "2")
        assert result.exception is None, result.exception
        taken.said.append({item.node.name: item.message or "" for item in result.result})
        taken.versions.append(taken.project.commits("snaps_made.good_then_bad"))
        failed = {item.node.name for item in result.result if item.status == "error"}
        assert failed == ({"always_bad"} if step == 1 else {"always_bad", "good_then_bad"})
    return taken


def test_a_key_of_several_columns_is_deleted_marked_and_comes_back(taken: Taken) -> None:
    rows = taken.rows(
        "select region, id, n, is_gone, until is null from snaps_made.pairs_marked "
        "order by region, id, since"
    )
    assert rows == [
        ("", "x", 1, "False", True),
        ("a", "bc", 1, "False", False),
        ("a", "bc", 2, "False", True),
        ("a", "|b", 1, "False", False),
        ("a", "|b", 1, "True", False),
        ("a", "|b", 1, "False", True),
        ("ab", "c", 1, "False", True),
        ("a|", "b", 1, "False", True),
    ]


def test_a_version_ends_where_the_next_one_begins(taken: Taken) -> None:
    gaps = taken.rows(
        "select * from (select region, id, until, lead(since) over (partition by region, id "
        "order by since) as next from snaps_made.pairs_marked) where not until <=> next"
    )
    assert gaps == []


def test_a_snapshot_has_the_sources_columns_and_dbts_and_no_others(taken: Taken) -> None:
    columns = taken.project.spark.table("snaps_made.pairs_marked").columns
    ours = ["version_id", "seen_at", "since", "until", "is_gone"]
    assert columns == ["region", "id", "n", *ours]


def test_a_deleted_key_that_is_to_be_ignored_stays_open(taken: Taken) -> None:
    rows = taken.rows(
        "select region, id, n, dbt_valid_to is null from snaps_made.pairs_kept "
        "where region = 'a' order by id, dbt_valid_from"
    )
    assert rows == [("a", "bc", 1, False), ("a", "bc", 2, True), ("a", "|b", 1, True)]


@pytest.mark.parametrize("table", ["pairs_kept", "timed_closed"])
def test_keys_whose_parts_make_one_text_have_ids_of_their_own(taken: Taken, table: str) -> None:
    ((keys, ids),) = taken.rows(
        "select count(distinct region, id), count(distinct dbt_scd_id) from "
        f"snaps_made.{table} where dbt_valid_to is null"
    )
    assert keys == ids == 5


def test_a_change_of_one_key_closes_no_other(taken: Taken) -> None:
    rows = taken.rows(
        "select region, id, day(at), dbt_valid_to is null from snaps_made.timed_closed "
        "where '|' in (right(region, 1), left(id, 1)) order by region, id, at"
    )
    assert rows == [
        ("a", "|b", 2, True),
        ("a|", "b", 2, False),
        ("a|", "b", 3, True),
    ]


def test_a_key_that_comes_back_with_its_old_time_is_open_again(taken: Taken) -> None:
    rows = taken.rows(
        "select dbt_valid_to is null from snaps_made.timed_closed where id = 'bc' order by 1"
    )
    assert rows == [(False,), (True,)]
    rows = taken.rows(
        "select dbt_is_deleted, dbt_valid_to = timestamp'9999-12-31' from snaps_made.timed_marked "
        "where id = 'bc' order by 2, 1"
    )
    assert rows == [("False", False), ("True", False), ("False", True)]


def test_a_column_comes_and_goes(taken: Taken) -> None:
    rows = taken.rows(
        "select id, name, note, dbt_valid_to = timestamp'9999-12-31' from "
        "snaps_made.shapes_closed order by id, dbt_valid_from"
    )
    assert rows == [(1, "ann", None, True), (2, "bob", None, False), (2, "bea", None, True)]


HELP = (
    "The log does not show values. To find these keys, group the snapshot's query by the "
    "unique_key. Change the query so that it returns one row per key: filter out rows without a "
    "key, keep only the newest row per key, or add a column to unique_key that makes it unique."
)


def error(taken: Taken, step: int, name: str) -> list[str]:
    """What dbt said of a snapshot, line by line, without dbt's own head and tail."""
    lines = [line.strip() for line in taken.said[step - 1][name].splitlines()]
    return lines[1 : lines.index(HELP) + 1]


@pytest.mark.parametrize(
    ("step", "keys"),
    [
        (1, ["id = ...: 2 rows", "id = NULL: 1 row"]),
        (2, ["id = ...: 2 rows"]),
        (3, ["id = NULL: 1 row"]),
    ],
)
def test_a_first_snapshot_with_wrong_keys_is_refused(
    taken: Taken, step: int, keys: list[str]
) -> None:
    count = "2 keys are" if len(keys) == 2 else "1 key is"
    assert error(taken, step, "always_bad") == [
        f"Snapshot always_bad: {count} NULL or not unique, so nothing was written. "
        "The unique_key is id.",
        *keys,
        HELP,
    ]


def test_a_snapshot_that_is_refused_makes_no_table_and_no_view(taken: Taken) -> None:
    assert taken.rows("show tables in snaps_made like 'always_bad*'") == []
    assert taken.rows("show tables in snaps_made like '*__dbt_tmp'") == []


@pytest.mark.parametrize(
    ("step", "keys"),
    [
        (2, ["region = ..., id = ...: 2 rows"]),
        (3, ["region = NULL, id = ...: 1 row", "region = ..., id = NULL: 1 row"]),
    ],
)
def test_a_later_snapshot_with_wrong_keys_is_refused(
    taken: Taken, step: int, keys: list[str]
) -> None:
    assert error(taken, step, "good_then_bad")[1:-1] == keys


def test_a_refused_snapshot_keeps_its_table_as_it_was(taken: Taken) -> None:
    assert taken.versions == [1, 1, 1]
    rows = taken.rows("select region, id, name, dbt_valid_to from snaps_made.good_then_bad")
    assert sorted(rows) == [("eu", 1, "a", None), ("us", 1, "b", None)]
