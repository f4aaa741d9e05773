"""The lake equals a PostgreSQL database under load, by what Debezium writes.

One run for all tests here: a database with a history of its own, clients that work on it, Debezium
that is killed and started again, and `tidemark run` while they work and after it. For a longer or
another run: TIDEMARK_E2E_ROUNDS (of crash, run and comparison), TIDEMARK_E2E_SECONDS (of each
round), TIDEMARK_E2E_RATE (transactions in a second), TIDEMARK_SEED.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e import clients, debezium, postgres, truth
from tests.e2e.stage import ROUNDS, SEED, Connectors, Replica, ReplicaTests, Stage, now
from tests.project import Project

pytestmark = [pytest.mark.e2e, pytest.mark.functional]

SECONDS = int(os.environ.get("TIDEMARK_E2E_SECONDS", "25"))
RATE = int(os.environ.get("TIDEMARK_E2E_RATE", "30"))
SCHEMA = Path(__file__).with_name("ticketing.sql")
# The tables that the connectors read: in one round, those whose changes are the hardest to follow.
HARD = ("customer", "orders", "seat_hold", "member", "sample")
SHOP = HARD if ROUNDS == 1 else None
FLAT = ("orders",) if ROUNDS == 1 else ("orders", "venue")
ADD_COLUMN = f"""
begin;
select pg_advisory_xact_lock({clients.LOCK});
alter table ticketing.customer add column loyalty text;
select audit.watch('customer');
create or replace procedure work.change_loyalty(id uuid) language sql as $$
    update ticketing.customer set loyalty = work.odd_text() where customer_id = id
$$;
commit;
"""
# A crash repeats what came after the last flush.
_SHARED = {**debezium.EXACT, "keys": "", "offset.flush.interval.ms": "4000"}
_AVRO = {**_SHARED, "avro": "", "schema.name.adjustment.mode": "avro"}
# By the format of the files: the settings of an enveloped and a flattened connector.
FORMATS = {
    "json": {"shop": _SHARED, "flat": _SHARED | debezium.FLATTENED | debezium.WITHOUT_SCHEMA},
    "avro": {"avro": _AVRO, "avroflat": _AVRO | debezium.FLATTENED},
    # See `_run`.
    "faults": {"odd": _SHARED, "oddflat": _SHARED | debezium.FLATTENED | debezium.WITHOUT_SCHEMA},
}


def _only(tables: Sequence[str] | None) -> dict[str, str]:
    if tables is None:
        return {}
    return {"table.include.list": ",".join(f"ticketing.{name}" for name in (*tables, "mark"))}


@pytest.fixture(
    scope="module",
    params=["json", *(pytest.param(it, marks=pytest.mark.slow) for it in ("avro", "faults"))],
)
def replica(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    module_project: Callable[[], Project],
) -> Iterator[Replica]:
    postgres.require()
    folder = tmp_path_factory.mktemp("e2e")
    state = folder / "state"
    is_odd = request.param == "faults"
    with postgres.running(has_clock=is_odd and postgres.faketime() is not None) as source:
        settings = FORMATS[request.param]
        connectors = [
            debezium.settings(name, source, state, **more | _only(tables))
            for (name, more), tables in zip(settings.items(), (SHOP, FLAT), strict=True)
        ]
        engine = debezium.Engine(folder / "outbox", state, connectors)
        sources = {
            name: (f"{name}_ticketing", tables)
            for name, tables in zip(settings, (SHOP, FLAT), strict=True)
        }
        try:
            yield _run(source, engine, module_project(), folder, sources, is_odd=is_odd)
        finally:
            engine.kill()


def _run(
    source: postgres.Postgres,
    engine: debezium.Engine,
    project: Project,
    folder: Path,
    connectors: Connectors,
    *,
    is_odd: bool,
) -> Replica:
    """`is_odd`: the database's clock is ahead by an hour for a while, a start is from old notes."""
    started = time.monotonic()
    replica = Replica(connectors)
    enveloped = next(iter(connectors))
    stage = Stage(source, project, replica, lambda table: truth.content(source, table), engine)
    source.sql(SCHEMA.read_text())
    replica.tables = truth.tables(source)
    start = truth.last_change(source)
    engine.start()
    read_from = now()
    # From the slot's creation on, each change is an event. Nothing changes before.
    slots = "select count(*) from pg_replication_slots where confirmed_flush_lsn is not null"
    engine.wait(lambda: source.sql(slots) == str(len(connectors)), "the replication slots")
    for turn in range(1, ROUNDS + 1):
        with clients.working(source, folder, SECONDS, RATE, SEED + turn) as work:
            if turn == 1:
                stage.declare(read_from)
                source.sql(ADD_COLUMN)
                replica.tables = truth.tables(source)
            with source.open_transaction() if is_odd else nullcontext():
                # Without it, the slot may be beyond these notes when Debezium starts from them.
                older = stage.notes(enveloped) if is_odd else b""
                if is_odd and postgres.faketime():
                    source.set_clock("+1h")
                stage.crash(f"{enveloped}.ticketing.orders", older)
            if is_odd and postgres.faketime():
                source.set_clock("+0")
            with clients.paused(source):
                stage.reach(turn)
                stage.deliver()
                at_mark = stage.contents()
            replica.reports.append(stage.tidemark("run"))
            stage.compare(at_mark)
            clients.finish(work)
    stage.finish(ROUNDS + 1)
    for name, table in replica.relations():
        replica.expected_versions[name] = truth.versions(source, table, start)
    stage.look(enveloped, ("lsn", "table"))
    replica.seconds["all"] = time.monotonic() - started
    print({name: round(seconds, 1) for name, seconds in replica.seconds.items()})
    return replica


class TestPostgres(ReplicaTests):
    """The lake equals the database."""
