"""Several feeds as one, and what was there before them: what the SQL is, and what is refused."""

from typing import Any

import pytest

from tests.macros.rendered import CompilerError, Macros, Relation
from tests.macros.test_changes import FEED, NEW

EU: dict[str, Any] = {**FEED, "name": "eu.orders", "epoch_at": "_changed_at", "table": {}}
US: dict[str, Any] = {**EU, "name": "us.orders"}
BY_FILES = {**US, "sequence": [], "columns": {"id": "int"}, "kept": {"id": "int"}}
OF_OTHERS = {**US, "table": {"batch": "batch"}}
CHANGES = [Relation("stg.eu_orders"), Relation("stg.us_orders")]
NO_TRUNCATE = {"feed": None}


def combined(*feeds: dict[str, Any], macros: Macros | None = None, **options: Any) -> Any:
    macros = macros or Macros(answers=[NO_TRUNCATE])
    return macros.changes_of_feeds(CHANGES[: len(feeds)], list(feeds), **options)


def test_one_feed_alone_stays_as_it_is() -> None:
    found = Macros().changes_of_feeds(CHANGES[0], EU)
    assert found == {"changes": CHANGES[0], "feed": EU}


def test_a_column_that_one_feed_lacks_or_leaves_out_is_null_in_its_rows() -> None:
    other = {
        **US,
        "columns": {"ID": "integer", "name": "string", "seq": "bigint", "at": "date"},
        "kept": {"ID": "integer", "seq": "bigint", "at": "date"},
    }
    found = combined(EU, other)
    assert found["feed"]["columns"] == {
        **{"id": "int", "name": "string", "seq": "bigint"},
        "at": "date",
    }
    of_eu, of_us = found["changes"].split("union all")
    assert "cast(null as date) as `at`" in of_eu
    assert "`ID` as `id`" in of_us
    assert "cast(null as string) as `name`" in of_us
    assert found["changes"].count("_order as _order") == 2, "the sequences have one type"


def test_with_a_source_column_each_feed_has_an_order_and_a_key_of_its_own() -> None:
    found = combined(EU, BY_FILES, source_column="region")
    assert found["feed"]["key"] == ["region", "id"]
    assert found["feed"]["source_values"] == ["eu", "us"]
    assert "'us' as `region`" in found["changes"]
    assert "'eu__orders', cast(null as bigint), 'us__orders', _order.sequence" in found["changes"]
    named = combined(EU, OF_OTHERS, source_column="region", source_values=["EU", "US"])
    assert "'US' as `region`" in named["changes"]


def test_each_feed_is_compared_with_itself_and_has_its_watermark() -> None:
    feed = combined(EU, US, source_column="region")["feed"]
    known = [
        {"source": "us", "applied": 7, "row_count": 3},
        {"source": "else", "applied": 9, "row_count": 3},
    ]
    macros = Macros(is_incremental=True, answers=[known, NEW])
    scope = macros.scope_of_changes("the_changes", feed, Relation("a.the_table"))
    assert (scope["kind"], scope["goes_on"]) == ("newer", True)
    assert scope["watermark"] == "case region when 'us' then 7 else -1 end"
    assert "left join known using (region)" in macros.asked[1]
    assert macros.asked[1].count("group by region") == 3


def test_a_truncate_deletes_the_keys_of_its_feed() -> None:
    feed = combined(EU, US, source_column="region")["feed"]
    everything = {"kind": "everything", "watermark": 0, "truncates": True}
    sql = Macros().changes_in_scope("the_changes", feed, "the_table", everything)
    assert "cross join" not in sql
    assert "on every_key.region = truncates.region" in sql


def test_a_table_before_is_older_than_every_change() -> None:
    macros = Macros(answers=[[]], columns=["ID", "name"])
    found = macros.changes_of_feeds(CHANGES[0], EU, before=Relation("hand.orders"))
    assert "having count(*) > 1 or `id` is null" in macros.asked[0]
    _, of_before = found["changes"].split("union all")
    assert "'phase', -1" in of_before
    assert "cast(0 as bigint) as _load_id" in of_before
    assert "cast(null as bigint) as `seq`" in of_before
    assert "coalesce(cast(null as timestamp), timestamp'1970-01-01 00:00:00')" in of_before
    assert found["feed"]["before"] == "orders"
    # Later builds read only some of its rows, and do not check them again.
    later = Macros(is_incremental=True, columns=["id"])
    later.changes_of_feeds(CHANGES[0], EU, before=Relation("hand.orders"), before_at="since")
    assert later.asked == []


@pytest.mark.parametrize(
    ("feeds", "options", "said"),
    [
        (
            (EU, {**US, "key": ["name"]}),
            {},
            "key of eu.orders is id, and that of us.orders is name",
        ),
        (
            (EU, {**US, "kept": {"id": "int", "name": "int"}}),
            {"source_column": "region"},
            "column name is string in eu.orders and int in us.orders",
        ),
        (
            (EU, {**US, "sequence": ["name"]}),
            {},
            "by a sequence of type bigint, and us.orders by a sequence of type string.*source_col",
        ),
        ((EU, {**US, "epochs": ["2024-01-01"]}), {}, "type bigint, anew since 2024.*source_col"),
        ((EU, OF_OTHERS), {}, "us.orders has format: table.*Give source_column"),
        ((EU, US), {"source_column": "NAME"}, "eu.orders already has a column name"),
        ((EU, EU), {"source_column": "region"}, "a value of its own.*they are eu, eu"),
        ((EU, US), {"source_column": "region", "source_values": ["a"]}, "they are a. Give a list"),
        ((EU, US), {"source_column": "region", "source_values": ["a", "b'"]}, "contains a quote"),
        ((EU, US), {"source_values": ["a", "b"]}, "source_values needs source_column"),
        ((EU, US), {"before_at": "since"}, "before_at needs before"),
        ((), {}, "Give a list of changes and a list of feeds"),
    ],
)
def test_feeds_that_do_not_go_together(feeds: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(CompilerError, match=said):
        combined(*feeds, **options)


def test_a_truncate_needs_a_source_column() -> None:
    with pytest.raises(CompilerError, match="us.orders has a truncate.*Give source_column"):
        combined(EU, US, macros=Macros(answers=[{"feed": "us.orders"}]))


def test_a_table_before_must_have_the_key_once() -> None:
    before = Relation("hand.orders")
    with pytest.raises(CompilerError, match="hand.orders has no column id, which is part of"):
        combined(EU, macros=Macros(columns=["name"]), before=before)
    twice = Macros(answers=[{"of_key": '{"id":1}'}], columns=["id"])
    with pytest.raises(CompilerError, match="one row for each key .id., .* the rows with ..id"):
        combined(EU, macros=twice, before=before)


def test_a_load_of_the_past_is_one_number_for_all_feeds() -> None:
    feed = combined(EU, OF_OTHERS, source_column="region")["feed"]
    with pytest.raises(CompilerError, match="us.orders has format: table and numbers its loads"):
        Macros().scope_until(3, feed)


def test_the_feeds_are_part_of_what_a_table_is_derived_from() -> None:
    feed = combined(EU, BY_FILES, source_column="region")["feed"]
    found = Macros()._derivation(feed, {})
    assert found["feeds"] == "eu.orders as eu, us.orders as us"
    assert found["source column"] == "region"
    assert found["sequence"] == "eu.orders: seq bigint; us.orders: place in the files"
