"""What macros refuse, in words that say what to do."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.macros.rendered import CompilerError, Macros
from tests.macros.test_changes import FEED


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"tracked": ["name"], "untracked": ["seq"]},
            "`tracked` or `untracked` for a history, not both",
        ),
        ({"tracked": ["nam"]}, "tracked column nam is not a column of the feed"),
        ({"untracked": ["nam"]}, "untracked column nam is not a column"),
        ({"column_names": {"valid_form": "x"}}, "this history has no column valid_form of its own"),
        ({"column_names": {"valid_from": "NAME"}}, "already has a column NAME"),
    ],
)
def test_a_history_refuses_options_that_do_not_fit(given: dict[str, Any], said: str) -> None:
    options: dict[str, Any] = {"tracked": None, "untracked": None, "column_names": {}, **given}
    with pytest.raises(CompilerError, match=said):
        Macros().history_shape(FEED, **options, open_end=None, show_deletes=False, bitemporal=False)


def test_a_load_of_the_past_is_a_number() -> None:
    assert Macros().scope_until("12")["until"] == 12
    with pytest.raises(CompilerError, match="must be a load_id"):
        Macros().scope_until("yesterday")


MERGES = {
    "materialized": "incremental",
    "incremental_strategy": "merge",
    "unique_key": "id",
    "delete_condition": "DBT_INTERNAL_SOURCE._op = 'D'",
    "not_matched_condition": "DBT_INTERNAL_SOURCE._op <> 'D'",
}


@pytest.mark.parametrize(
    ("changed", "merge_of", "said"),
    [
        ({}, "dbt_spark", "comes from the package dbt_spark.*search_order: .own, tidemark, dbt"),
        ({"unique_key": "name"}, "tidemark", "unique_key is .'name'.. Write"),
        ({"incremental_strategy": "append"}, "tidemark", "incremental_strategy: merge"),
        ({"delete_condition": None}, "tidemark", "keep deleted rows.*delete_condition: DBT_"),
        ({"not_matched_condition": "true"}, "tidemark", "not_matched_condition: DBT_INTERNAL"),
    ],
)
def test_a_merge_that_would_not_delete(changed: dict[str, Any], merge_of: str, said: str) -> None:
    macros = Macros(config=MERGES | changed, merge_of=merge_of)
    with pytest.raises(CompilerError, match=said):
        macros.current_from_changes("the_changes", FEED)


def test_a_table_that_is_built_anew_each_time_needs_no_merge() -> None:
    config = {"materialized": "table", "unique_key": "id"}
    macros = Macros(config=config, merge_of="dbt_spark", has_relations=False)
    assert "select" in macros.current_from_changes("the_changes", FEED)


def test_a_merge_without_a_key_would_append() -> None:
    with pytest.raises(CompilerError, match="has no unique_key"):
        Macros().spark__get_merge_sql("the_table", "new", None, [], None)


@pytest.mark.parametrize(
    ("feed", "said"),
    [
        (None, "the source table shop.orders is not declared"),
        ({}, "declares no feed with a key"),
    ],
)
def test_a_feed_must_be_declared(feed: dict[str, Any] | None, said: str) -> None:
    source = SimpleNamespace(
        source_name="shop",
        name="orders",
        source_meta={},
        config=SimpleNamespace(meta={"feed": feed}),
        original_file_path="models/staging/shop/_shop__sources.yml",
    )
    with pytest.raises(CompilerError, match=said):
        Macros(sources=[] if feed is None else [source]).feed("shop", "orders")
