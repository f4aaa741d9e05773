"""The macro `feed` reads the declarations that landing reads, and must understand the same."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.macros.rendered import Macros
from tidemark import feeds
from tidemark.feed_settings import PLACES
from tidemark.ingest import macros

COLUMNS = {"id": "int", "name": "string", "n": "int"}


@pytest.mark.parametrize(
    "declared",
    [
        {"format": "dms"},
        {"format": "dms", "sequence": "n"},
        {"format": "dms", "unavailable_value": "n/a"},
        {"format": "extract", "time_in_name": "%Y-%m-%d"},
        {"format": "extract", "status_column": "status", "sequence": ["n", "id"]},
        {"format": "extract", "status_column": "status", "ignore_null_updates": ["name"]},
        {"format": "debezium"},
        *({"format": "debezium", "sequence": place} for (place,) in PLACES),
        {"format": "debezium", "sequence": "n", "epochs": "2024-03-01 12:00:00"},
        {"format": "debezium", "unavailable_value": None},
        {"format": "debezium", "unavailable_value": "n/a", "changed_columns": "n"},
    ],
    ids=str,
)
def test_the_defaults_of_formats_are_those_of_landing(declared: dict[str, Any]) -> None:
    settings = {"key": "id", **declared}
    feed = feeds.feed_from_source(
        {
            **{"source_name": "shop", "name": "orders", "schema": "log_shop", "meta": {}},
            **{"original_file_path": "", "config": {"meta": {"feed": settings}}},
            "columns": {name: {"data_type": of} for name, of in COLUMNS.items()},
        }
    )
    source = SimpleNamespace(
        source_name="shop",
        name="orders",
        schema="log_shop",
        identifier="orders",
        source_meta={},
        config=SimpleNamespace(meta={"feed": settings}),
        columns={name: SimpleNamespace(name=name, data_type=of) for name, of in COLUMNS.items()},
    )
    found = Macros(sources=[source], has_relations=False).feed("shop", "orders")
    assert feed
    assert found["key"] == [*feed.key]
    assert found["sequence"] == [*feed.sequence_columns]
    assert found["is_placed"] == feed.is_placed
    assert found["epochs"] == [*feed.epochs]
    assert found["epoch_at"] == feed.epoch_at
    assert found["format"] == feed.format
    assert found["has_generations"] == feed.has_generations
    assert bool(found["partial"]) == feed.has_partial_rows
    is_told = f"`name` <=> '{feed.unavailable_value}'" in found["partial"].get("name", "")
    assert is_told == (feed.unavailable_value is not None)
    in_dbt = Macros().place_of_change(found, False)
    assert macros.place_of_change(feed, has_reloads=False).split() == in_dbt.split()


@pytest.mark.parametrize(("format", "is_like_a_load"), [("debezium", False), ("dms", True)])
def test_rows_that_debezium_snapshots_while_it_streams_are_changes(
    format: str, is_like_a_load: bool
) -> None:
    """They would be older than every change, whatever their sequence says."""
    feed = {
        **{"format": format, "sequence": ["n"], "columns": {"n": "int"}, "epochs": []},
        **{"is_placed": False, "has_generations": format == "dms"},
    }
    assert ("_op = 'R'" in Macros().place_of_change(feed, False)) is is_like_a_load
