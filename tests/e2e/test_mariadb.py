"""The lake equals a MariaDB database under load, by what Debezium writes. See test_postgres.py."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e import debezium, mariadb, mariadb_clients
from tests.e2e import mariadb_truth as truth
from tests.e2e.mariadb import MariaDB
from tests.e2e.stage import SEED, Connectors, Replica, ReplicaTests, Stage, now
from tests.e2e.truth import last_change
from tests.project import Project

# Slow, until the suite is faster: it takes two minutes, and shares most of its way with
# test_postgres.py. test_mariadb_settings.py and tests/landings have what differs.
pytestmark = [pytest.mark.e2e, pytest.mark.functional, pytest.mark.slow]

SECONDS = int(os.environ.get("TIDEMARK_E2E_SECONDS", "15"))
RATE = int(os.environ.get("TIDEMARK_E2E_RATE", "30"))
SCHEMA = Path(__file__).with_name("mariadb_ticketing.sql")
ROWS = Path(__file__).with_name("mariadb_rows.sql")
CONNECTORS: Connectors = {"shop": ("ticketing", None)}
# Not at the end of the row: later changes have the other columns at other places.
ADD_COLUMN = """
alter table ticketing.visitor add column level varchar(20) after name;
create or replace procedure work.change_level(id bigint unsigned)
    update ticketing.visitor set level = left(work.odd_text(), 20) where visitor_id = id;
"""
# In one second, so that the log and the truth have the same one.
TRUNCATE = """
set timestamp = floor(unix_timestamp());
insert into audit.change (of_table, changed_at) values ('seat_hold', utc_timestamp());
truncate table ticketing.seat_hold;
"""


@pytest.fixture(scope="module")
def replica(
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    module_project: Callable[[], Project],
) -> Iterator[Replica]:
    mariadb.require()
    folder = tmp_path_factory.mktemp("e2e")
    with mariadb.running() as source:
        # A crash repeats what came after the last flush.
        shared = {**debezium.MARIADB_EXACT, "keys": "", "offset.flush.interval.ms": "4000"}
        connector = debezium.mariadb_settings("shop", source, folder / "state", **shared)
        engine = debezium.Engine(
            folder / "outbox", folder / "state", [connector], debezium.MARIADB_LOCK
        )
        try:
            yield _run(source, engine, module_project())
        finally:
            engine.kill()


def _run(source: MariaDB, engine: debezium.Engine, project: Project) -> Replica:
    started = time.monotonic()
    replica = Replica(CONNECTORS)
    stage = Stage(source, project, replica, lambda table: truth.content(source, table), engine)
    source.sql(SCHEMA.read_text())
    truth.watch(source)
    source.sql(ROWS.read_text())
    replica.tables = truth.tables(source)
    start = last_change(source)
    # A time of the log has no fraction.
    read_from = now()[:19]
    engine.start()
    # When the first row is there, the place in the log is known: from there on, each change is an
    # event.
    engine.wait(lambda: any(engine.outbox.glob("shop.ticketing.*/[!.]*")), "the first row")
    with mariadb_clients.working(source, SECONDS, RATE, SEED) as work:
        stage.declare(read_from)
        older = stage.notes("shop")
        with mariadb_clients.paused(source):
            source.sql(ADD_COLUMN)
            truth.watch(source)
        replica.tables = truth.tables(source)
        # It starts from notes that are older than what it had noted last.
        stage.crash("shop.ticketing.visitor", older)
        with mariadb_clients.paused(source):
            source.sql(TRUNCATE)
            stage.reach(1)
            stage.deliver()
            at_mark = stage.contents()
        replica.reports.append(stage.tidemark("run"))
        stage.compare(at_mark)
        mariadb_clients.finish(work)
    stage.finish(2)
    for name, table in replica.relations():
        replica.expected_versions[name] = truth.versions(source, table, start)
    stage.look("shop", ("file", "pos", "row", "table"))
    replica.seconds["all"] = time.monotonic() - started
    print({name: round(seconds, 1) for name, seconds in replica.seconds.items()})
    print(replica.operations, "repeated:", replica.repeated)
    return replica


class TestMariaDB(ReplicaTests):
    """The lake equals the database."""
