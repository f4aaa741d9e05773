"""What each setting of docs/point_it_at_your_database.md costs where it is missing, by the events.

Four connectors read the same changes: with the page's settings, with Debezium's defaults, with
settings that lose digits, and with values as texts. The tests are slow, because they are of
Debezium itself: only another version of it changes what they find. test_postgres.py has the page's
settings.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e import debezium, postgres

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

UNAVAILABLE = "__debezium_unavailable_value"
BEFORE = """
create schema ticketing;
create table ticketing.plain (
    id integer primary key, span interval, amount numeric(20, 10), free numeric, at timestamp,
    day date, plan text, n integer
);
create table ticketing.whole (id integer primary key, plan text, n integer);
alter table ticketing.plain alter column plan set storage external;
alter table ticketing.whole alter column plan set storage external;
alter table ticketing.whole replica identity full;
create table ticketing.keyless (n integer);
"""
CHANGES = """
insert into ticketing.plain
select 1, '1 mon', 1234567890.0123456789, 1.10, '2026-01-01 00:00:00.123456', '2026-01-31',
    (select string_agg(md5(n::text), '') from generate_series(1, 200) as n), 0;
insert into ticketing.plain (id, free, day) values (9, 'NaN', 'infinity');
insert into ticketing.whole select id, plan, n from ticketing.plain;
update ticketing.plain set n = 1 where id = 1;
update ticketing.whole set n = 1 where id = 1;
update ticketing.plain set id = 2 where id = 1;
update ticketing.whole set id = 2 where id = 1;
delete from ticketing.plain where id = 9;
delete from ticketing.whole where id = 9;
alter table ticketing.plain add column level text not null default 'basic';
update ticketing.plain set n = 2 where id = 2;
insert into ticketing.plain (id) values (10);
truncate ticketing.whole;
insert into ticketing.keyless values (1);
"""

Events = dict[str, list[Any]]


@pytest.fixture(scope="module")
def source() -> Iterator[postgres.Postgres]:
    postgres.require()
    with postgres.running() as cluster:
        cluster.sql(BEFORE)
        yield cluster


@pytest.fixture(scope="module")
def events(source: postgres.Postgres, tmp_path_factory: pytest.TempPathFactory) -> Events:
    """The documents of each topic, in order."""
    folder = tmp_path_factory.mktemp("settings")
    state, outbox = folder / "state", folder / "outbox"
    kinds = {
        "exact": debezium.EXACT,
        "bare": {},
        "lossy": {"decimal.handling.mode": "double", "time.precision.mode": "connect"},
        "text": debezium.EXACT | debezium.WITHOUT_SCHEMA,
    }
    connectors = [
        debezium.settings(name, source, state, **more, **{"converter.schemas.enable": "false"})
        if name != "text"
        else debezium.settings(name, source, state, **more)
        for name, more in kinds.items()
    ]
    engine = debezium.Engine(outbox, state, connectors)
    engine.start()
    try:
        slots = "select count(*) from pg_replication_slots where confirmed_flush_lsn is not null"
        engine.wait(lambda: source.sql(slots) == str(len(kinds)), "the replication slots", 120)
        source.sql(CHANGES)
        # The last change is there: so are all others of the same connector.
        last = [outbox / f"{name}.ticketing.keyless" for name in kinds]
        engine.wait(lambda: all(any(it.glob("[!.]*.json")) for it in last), "the last row", 120)
    finally:
        engine.kill()
    return engine.documents()


def _row(events: Events, topic: str, key: int = 1, op: str = "c") -> Any:
    """The first row that the event of this kind has for this key."""
    return next(
        event["after"]
        for event in events[topic]
        if event and event["op"] == op and event["after"]["id"] == key
    )


def test_truncates_are_written_only_if_asked(events: Events) -> None:
    def ops(topic: str) -> list[str]:
        return [event["op"] for event in events[topic] if event]

    assert ops("exact.ticketing.whole").count("t") == 1
    assert ops("bare.ticketing.whole").count("t") == 0


def test_decimals_keep_their_digits(events: Events) -> None:
    assert _row(events, "lossy.ticketing.plain")["amount"] == 1234567890.0123458
    assert _row(events, "text.ticketing.plain")["amount"] == "1234567890.0123456789"
    assert _row(events, "exact.ticketing.plain")["free"] == {"scale": 1, "value": "Cw=="}
    assert _row(events, "text.ticketing.plain")["free"] == "1.10"


def test_not_a_number_is_null_unless_decimals_are_texts(events: Events) -> None:
    assert _row(events, "exact.ticketing.plain", 9)["free"] is None
    assert _row(events, "text.ticketing.plain", 9)["free"] == "NAN"


def test_times_keep_their_microseconds(events: Events) -> None:
    assert _row(events, "lossy.ticketing.plain")["at"] == 1767225600123
    assert _row(events, "exact.ticketing.plain")["at"] == 1767225600123456
    assert _row(events, "text.ticketing.plain")["at"] == "2026-01-01T00:00:00.123456Z"


def test_infinite_dates_are_numbers_out_of_range(events: Events) -> None:
    assert _row(events, "exact.ticketing.plain", 9)["day"] == -2147472692


def test_intervals_keep_their_months(events: Events) -> None:
    # 30.4375 days.
    assert _row(events, "bare.ticketing.plain")["span"] == 2629800000000
    assert _row(events, "exact.ticketing.plain")["span"] == "P0Y1M0DT0H0M0S"


def test_values_that_are_not_logged_have_a_placeholder(events: Events) -> None:
    assert _row(events, "exact.ticketing.plain", op="u")["plan"] == UNAVAILABLE
    assert len(_row(events, "exact.ticketing.whole", op="u")["plan"]) == 6400


def test_a_changed_key_loses_what_is_not_logged(events: Events) -> None:
    assert _row(events, "exact.ticketing.plain", 2)["plan"] == UNAVAILABLE
    assert len(_row(events, "exact.ticketing.whole", 2)["plan"]) == 6400


def test_a_delete_has_the_key_alone_unless_the_identity_is_full(events: Events) -> None:
    def deleted(topic: str) -> Any:
        before = [event["before"] for event in events[topic] if event and event["op"] == "d"]
        return next(row for row in before if row["id"] == 1)

    assert deleted("exact.ticketing.plain")["n"] is None
    assert deleted("exact.ticketing.whole")["n"] == 1


def test_a_new_column_with_a_default_writes_no_event(events: Events) -> None:
    rows = [event["after"] for event in events["exact.ticketing.plain"] if event and event["after"]]
    assert [row["id"] for row in rows if "level" in row] == [2, 10]


def test_a_table_without_a_key_cannot_change_any_more(
    source: postgres.Postgres, events: Events
) -> None:
    with pytest.raises(RuntimeError, match="does not have a replica identity"):
        source.sql("update ticketing.keyless set n = 2")
    assert [event["after"] for event in events["exact.ticketing.keyless"]] == [{"n": 1}]
