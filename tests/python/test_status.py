"""What makes the state red: bounds of the YAML, and dbt's results. And how a table grew."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.python.test_feeds import declared
from tidemark import page, status
from tidemark.dbt_plugin.project import Project, Result
from tidemark.formats import delta
from tidemark.ingest import books
from tidemark.ingest.landed import Landed, Outcome
from tidemark.reasons import Why

HOUR = timedelta(hours=1)
TODAY = datetime(2026, 3, 1, 23, 59, tzinfo=UTC)


@pytest.fixture
def table() -> status.Table:
    """A table that landed an hour before the test."""
    now = datetime.now(UTC)
    return status.Table(declared(), 0, 0, 0, 0, False, now - HOUR, now - 3 * HOUR, "")


def found(table: status.Table, **bounds: timedelta) -> list[tuple[str, bool]]:
    return [(each.text, each.is_error) for each in status._of_bounds(table, bounds)]


def test_rows_that_are_older_than_dbt_s_freshness_allows(table: status.Table) -> None:
    assert found(table) == []
    assert found(table, warn_after=2 * HOUR) == []
    ((text, is_error),) = found(table, warn_after=HOUR / 2, error_after=2 * HOUR)
    assert (text, is_error) == (
        "shop.orders: its newest row is 60 min old, warn_after is 30 min.",
        False,
    )
    ((text, is_error),) = found(table, warn_after=HOUR / 2, error_after=HOUR / 2)
    assert "error_after" in text
    assert is_error
    # With `loaded_at_field: _changed_at`.
    ((text, _),) = found(table, error_after=2 * HOUR, _changed_at=HOUR)
    assert "is 3 h old" in text
    assert found(replace(table, landed_at=None, newest_change=None), error_after=HOUR) == []


def test_a_load_that_comes_late_and_dead_letters_above_their_bound(
    table: status.Table,
) -> None:
    assert found(replace(table, feed=declared(max_lag="3 hours"))) == []
    assert found(replace(table, feed=declared(max_lag="1 hour"))) == [
        ("shop.orders: its newest change landed 2 h after it was made, max_lag is 1 hour.", True)
    ]
    assert found(replace(table, dead_letters=2)) == [("shop.orders: 2 open dead letters.", False)]
    bound = replace(table, dead_letters=2, set_aside=1, feed=declared(max_dead_letters=3))
    assert found(bound) == [("shop.orders: 3 open dead letters.", False)]
    assert found(replace(bound, set_aside=2)) == [
        ("shop.orders: 4 open dead letters, max_dead_letters is 3.", True)
    ]


def test_a_file_that_waits_for_confirmation_is_not_to_be_replayed() -> None:
    landed = Landed(declared())
    landed.notes.append(Why.WISH_WITHOUT_FILE(files="gone.csv"))
    aside = {"a.csv": "not UTF-8", "b.csv": "it lacks keys", "c.csv": "of a newer Tidemark"}
    landed.outcome = Outcome(set_aside=aside)
    codes = {"b.csv": "LACKS_KEYS", "c.csv": "UNHEARD_OF"}
    found = {each.text: each.command for each in status._of_landing(landed, codes)}
    replay = "tidemark replay shop.orders"
    assert [*found.values()] == ["", replay, "", replay]
    aside |= {f"d{number}.csv": "it lacks keys" for number in range(8)}
    codes |= dict.fromkeys(aside, "LACKS_KEYS")
    *_, last = status._of_landing(landed, codes)
    assert last.line == "shop.orders: and 1 more file"


def test_the_dead_letter_of_an_earlier_version_has_no_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_LAKE", str(tmp_path))
    names = {"source_name": "shop", "table_name": "orders", "file": "a.csv", "reason": "not UTF-8"}
    row = {**names, "position": 1}
    schema = pa.schema([field for field in books.schema(books.DEAD_LETTER) if field.name != "code"])
    write_deltalake(books.place(books.DEAD_LETTER), pa.Table.from_pylist([names, row], schema))
    assert status._set_aside(books._Files()) == {"shop.orders": {"a.csv": ("not UTF-8", None)}}
    assert status._open_records(books._Files()) == {"shop.orders": {None: 1}}


def test_dead_letters_above_their_bound_need_no_replay_if_all_are_files(
    table: status.Table,
) -> None:
    only_files = replace(table, set_aside=1, feed=declared(max_dead_letters=0))
    (problem,) = status._of_bounds(only_files, {})
    assert (problem.is_error, problem.command) == (True, "")
    (problem,) = status._of_bounds(replace(only_files, dead_letters=1), {})
    assert problem.command == "tidemark replay shop.orders"


def test_dead_letters_from_before_a_cut_need_no_replay(table: status.Table) -> None:
    (problem,) = status._of_bounds(replace(table, dead_letters=2, lost=2), {})
    assert (problem.text, problem.command) == ("shop.orders: 2 open dead letters.", "")
    (problem,) = status._of_bounds(replace(table, dead_letters=2, lost=1), {})
    assert problem.command == "tidemark replay shop.orders"


def test_freshness_is_read_as_dbt_has_it() -> None:
    never = {"count": None, "period": None}
    freshness = {"warn_after": never, "error_after": {"count": 2, "period": "day"}, "filter": None}
    source = {"source_name": "shop", "name": "orders", "freshness": freshness}
    sources = [source, {**source, "name": "b", "loaded_at_field": "_changed_at"}]
    bounds = status._bounds(
        Project([*sources, {**source, "name": "c", "freshness": None}], {}, [], [])
    )
    assert bounds["shop.orders"] == {"error_after": timedelta(days=2)}
    assert "_changed_at" in bounds["shop.b"]
    assert not bounds["shop.c"]


def test_dbt_s_failures_are_errors_and_their_messages_have_one_line() -> None:
    results = {
        "model.x.a": Result("error", 1, "Runtime Error in model a\n  the value 'secret'"),
        "model.x.b": Result("success", 1, "OK"),
        "test.x.c.0123": Result("warn", 1, "Got 1 result, configured to warn if != 0"),
    }
    assert [(each.text, each.is_error) for each in status._of_results(results)] == [
        ("model a failed: Runtime Error in model a", True),
        ("test c warned: Got 1 result, configured to warn if != 0", False),
    ]


def commit(days: int, operation: str, mode: str = "", **metrics: Any) -> dict[str, Any]:
    at = (TODAY - timedelta(days=days)).timestamp() * 1000
    numbers = {name: str(value) for name, value in metrics.items()}
    parameters = {"mode": mode} if mode else {}
    return {
        **{"timestamp": at, "operation": operation, "operationMetrics": numbers},
        "operationParameters": parameters,
    }


@pytest.mark.parametrize(
    ("commits", "rows", "last_days"),
    [
        ([commit(0, "WRITE", "Append", numOutputRows=5), commit(2, "CREATE TABLE")], 5, [0, 0, 5]),
        (
            [
                commit(0, "OPTIMIZE", numAddedFiles=1),
                commit(1, "MERGE", numTargetRowsInserted=4, numTargetRowsDeleted=1),
                commit(2, "DELETE", numDeletedRows=10),
            ],
            20,
            [17, 20, 20],
        ),
        (
            # A full refresh, and a merge before it.
            [
                commit(0, "CREATE OR REPLACE TABLE AS SELECT", numOutputRows=7),
                commit(2, "MERGE", numTargetRowsInserted=4),
            ],
            7,
            [7, 7, 7],
        ),
    ],
)
def test_a_table_grew_as_its_history_says(
    commits: list[dict[str, Any]], rows: int, last_days: list[int]
) -> None:
    first = {**commit(29, "CREATE TABLE AS SELECT", numOutputRows=1), "version": 0}
    assert page._by_day(delta.rows_after([*commits, first], rows), TODAY.date())[-3:] == last_days
