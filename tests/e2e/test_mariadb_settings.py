"""What each setting for MariaDB in docs/point_it_at_your_database.md costs where it is missing.

Like test_settings.py. Here also: what Debezium loses with any settings.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import debezium, mariadb
from tests.e2e.mariadb import MariaDB
from tidemark.readers.debezium import position_of

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

BEFORE = """
create database ticketing;
use ticketing;
create table plain (
    id int primary key, n int, ubig bigint unsigned, amount decimal(20, 10), at datetime(6),
    t time(6), day date, needed date not null default '2026-01-31', ts timestamp null, f float
);
create table parent (id int primary key);
create table child (
    id int primary key, parent_id int,
    foreign key (parent_id) references parent (id) on delete cascade
);
create table parted (id int primary key, day date not null) partition by range (id)
(partition low values less than (10), partition rest values less than maxvalue);
create table keyless (n int);
-- In the snapshot.
insert into plain (id, t, day, needed, ts, f)
values (1, '-10:11:12.5', '0099-12-31', '0000-00-00', '0000-00-00', 835.7596);
"""
CHANGES = """
use ticketing;
insert into plain (id, ubig, amount, at, t, f) values (
    2, 18446744073709551615, 1234567890.0123456789, '2026-01-01 00:00:00.123456', '100:00:00',
    835.7596
);
insert into plain (id, day, needed, ts) values (3, '0000-00-00', '2026-00-00', '0000-00-00');
alter table plain add column y year;
insert into plain (id, y) values (4, 0);
insert into parent values (1), (2);
insert into child values (1, 1), (2, 2);
delete from parent where id = 1;
insert into parted values (1, '2026-01-31'), (11, '0000-00-00');
alter table parted drop partition low;
alter table plain add column level varchar(10) not null default 'basic';
update plain set n = 2 where id = 2;
alter table plain modify n varchar(10);
set sql_log_bin = 0;
update plain set n = 3 where id = 2;
set sql_log_bin = 1;
insert into keyless values (1), (1);
update keyless set n = 2 limit 1;
truncate plain;
insert into keyless values (9);
"""
KINDS: dict[str, dict[str, str]] = {
    "exact": debezium.MARIADB_EXACT,
    "bare": {},
    "lossy": {"decimal.handling.mode": "double", "time.precision.mode": "connect"},
    "text": debezium.MARIADB_EXACT | debezium.WITHOUT_SCHEMA,
    "flat": debezium.MARIADB_EXACT | debezium.MARIADB_FLATTENED,
}

Events = dict[str, list[Any]]


@pytest.fixture(scope="module")
def source() -> Iterator[MariaDB]:
    mariadb.require()
    with mariadb.running() as server:
        server.sql(BEFORE)
        yield server


@pytest.fixture(scope="module")
def engine(source: MariaDB, tmp_path_factory: pytest.TempPathFactory) -> Iterator[debezium.Engine]:
    folder = tmp_path_factory.mktemp("settings")
    state = folder / "state"
    connectors = [
        debezium.mariadb_settings(
            name, source, state, **{**more, "converter.schemas.enable": "false"}
        )
        for name, more in KINDS.items()
    ]
    engine = debezium.Engine(folder / "outbox", state, connectors, debezium.MARIADB_LOCK)
    try:
        yield engine
    finally:
        engine.kill()


@pytest.fixture(scope="module")
def events(source: MariaDB, engine: debezium.Engine) -> Events:
    """The documents of each topic, in order."""
    engine.start()
    topics = [engine.outbox / f"{name}.ticketing.plain" for name in KINDS]
    engine.wait(lambda: all(any(it.glob("[!.]*")) for it in topics), "the snapshot", 120)
    source.sql(CHANGES)
    # The last change is there: so are all others of the same connector.
    topics = [engine.outbox / f"{name}.ticketing.keyless" for name in KINDS]
    engine.wait(
        lambda: all(
            any('{"n":9' in file.read_text() for file in topic.glob("[!.]*")) for topic in topics
        ),
        "the last row",
        120,
    )
    engine.end()
    return engine.documents()


def _row(events: Events, kind: str, key: int) -> Any:
    """The first row that the connector wrote for this key."""
    return next(
        event["after"]
        for event in events[f"{kind}.ticketing.plain"]
        if event and event["after"] and event["after"]["id"] == key
    )


def _ops(events: Events, topic: str) -> list[str]:
    return [event["op"] for event in events[topic] if event]


def test_truncates_are_written_only_if_asked(events: Events) -> None:
    assert _ops(events, "exact.ticketing.plain").count("t") == 1
    assert _ops(events, "bare.ticketing.plain").count("t") == 0


def test_unsigned_numbers_need_a_setting(events: Events) -> None:
    assert _row(events, "bare", 2)["ubig"] == -1
    # 18446744073709551615.
    assert _row(events, "exact", 2)["ubig"] == "AP//////////"
    # Still not a text.
    assert _row(events, "text", 2)["ubig"] == "AP//////////"


def test_decimals_keep_their_digits(events: Events) -> None:
    assert _row(events, "lossy", 2)["amount"] == 1234567890.0123458
    assert _row(events, "text", 2)["amount"] == "1234567890.0123456789"


def test_floats_of_a_snapshot_have_six_digits(events: Events) -> None:
    assert _row(events, "exact", 1)["f"] == 835.76
    assert _row(events, "exact", 2)["f"] == 835.7596


def test_times_keep_their_microseconds(events: Events) -> None:
    assert _row(events, "lossy", 2)["at"] == 1767225600123
    assert _row(events, "exact", 2)["at"] == 1767225600123456


def test_times_that_are_negative_or_long_are_null_but_as_microseconds(events: Events) -> None:
    assert _row(events, "exact", 1)["t"] == -36_672_500_000
    assert _row(events, "exact", 2)["t"] == 360_000_000_000
    for kind in ("lossy", "text"):
        assert _row(events, kind, 1)["t"] is None
        assert _row(events, kind, 2)["t"] is None


def test_early_years_are_moved_unless_told_not_to(events: Events) -> None:
    # 0099-12-31, and 1999-12-31.
    assert _row(events, "exact", 1)["day"] == -683_004
    assert _row(events, "bare", 1)["day"] == 10_956


def test_zero_dates_are_null_or_the_default_or_1970(events: Events) -> None:
    assert _row(events, "exact", 3)["day"] is None
    # 2026-01-31.
    assert _row(events, "exact", 1)["needed"] == 20_484
    assert _row(events, "exact", 3)["needed"] == 20_484
    assert events["exact.ticketing.parted"][1]["after"]["day"] == 0
    # In a snapshot, and in the log.
    assert _row(events, "exact", 1)["ts"] is None
    assert _row(events, "exact", 3)["ts"] == "1970-01-01T00:00:00Z"


def test_the_year_0_is_1900(events: Events) -> None:
    assert _row(events, "exact", 4)["y"] == 1900


def test_deletes_of_foreign_keys_and_partitions_are_not_logged(events: Events) -> None:
    assert _ops(events, "exact.ticketing.parent") == ["c", "c", "d"]
    assert _ops(events, "exact.ticketing.child") == ["c", "c"]
    assert _ops(events, "exact.ticketing.parted") == ["c", "c"]


def test_alter_table_and_unlogged_sessions_write_no_event(events: Events) -> None:
    rows = [event["after"] for event in events["exact.ticketing.plain"] if event and event["after"]]
    assert [row["id"] for row in rows if "level" in row] == [2]
    assert [row["n"] for row in rows if row["id"] == 2] == [None, 2]


def test_flattened_events_have_the_position_of_each_row(events: Events) -> None:
    enveloped = [position_of(event["source"]) for event in events["exact.ticketing.keyless"]]
    added = [
        {name.removeprefix("__source_"): value for name, value in event.items()}
        for event in events["flat.ticketing.keyless"]
    ]
    assert [position_of(fields) for fields in added] == enveloped
    # Two rows of one statement differ in the row alone.
    assert len(set(enveloped)) == 4
    assert len({position_of({**fields, "row": 0}) for fields in added}) == 3


def test_times_of_changes_are_whole_seconds(events: Events) -> None:
    times = [event["source"]["ts_us"] for event in events["exact.ticketing.parent"] if event]
    assert [time % 1_000_000 for time in times] == [0, 0, 0]


def test_a_log_that_is_gone_stops_the_connector(
    source: MariaDB, engine: debezium.Engine, events: Events
) -> None:
    source.sql("insert into ticketing.keyless values (10); flush binary logs")
    # A log is kept as long as the server takes the connection that read it for open.
    while source.sql("show binary logs").count("\n"):
        source.sql("insert into ticketing.keyless values (10); flush binary logs")
        source.sql("purge binary logs before sysdate() + interval 1 day")
    assert "required binlog files have been purged" in _refusal(engine)


@pytest.mark.parametrize("setting", ["binlog_row_image=MINIMAL", "binlog_format=MIXED"])
def test_a_connector_refuses_a_log_without_whole_rows(
    source: MariaDB, tmp_path: Path, setting: str
) -> None:
    source.sql(f"set global {setting.replace('=', ' = ')}")
    connector = debezium.mariadb_settings("other", source, tmp_path)
    other = debezium.Engine(tmp_path / "outbox", tmp_path, [connector], debezium.MARIADB_LOCK)
    assert setting.split("=")[0] in _refusal(other)


def _refusal(engine: debezium.Engine) -> str:
    """What an engine logs that gives up by itself."""
    before = len(engine.log.read_text()) if engine.log.exists() else 0
    engine.start()
    try:
        end = time.monotonic() + 60
        while "The engine ended" not in (said := engine.log.read_text()[before:]):
            assert time.monotonic() < end, said[-2000:]
            time.sleep(0.1)
    finally:
        engine.kill()
    return said


def test_the_page_shows_the_settings_that_are_tested() -> None:
    page = (Path(__file__).parents[2] / "docs" / "point_it_at_your_database.md").read_text()
    for name, value in debezium.MARIADB_EXACT.items():
        assert f"{name}={value}" in page
    assert debezium.MARIADB_FLATTENED["transforms.flat.add.fields"] in page
    assert [grant for grant in mariadb.GRANTS if grant not in page] == []
