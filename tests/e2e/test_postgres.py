"""The lake equals a PostgreSQL database under load, by what Debezium writes.

One run for all tests here: a database with a history of its own, clients that work on it, Debezium
that is killed and started again, and `tidemark run` while they work and after it. For a longer or
another run: TIDEMARK_E2E_ROUNDS (of crash, run and comparison), TIDEMARK_E2E_SECONDS (of each
round), TIDEMARK_E2E_RATE (transactions in a second), TIDEMARK_SEED.
"""

import io
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from tests.e2e import clients, debezium, postgres, truth
from tests.e2e.truth import Key, Row, Table, Version
from tests.project import Project
from tidemark import cli

pytestmark = [pytest.mark.e2e, pytest.mark.functional]

SECONDS = int(os.environ.get("TIDEMARK_E2E_SECONDS", "25"))
ROUNDS = int(os.environ.get("TIDEMARK_E2E_ROUNDS", "1"))
RATE = int(os.environ.get("TIDEMARK_E2E_RATE", "30"))
SEED = int(os.environ.get("TIDEMARK_SEED", "21"))
SCHEMA = Path(__file__).with_name("ticketing.sql")
# The tables that the second connector reads.
FLAT = ("orders", "venue")
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
SOURCES = {"shop": "shop_ticketing", "flat": "flat_ticketing"}


@dataclass
class Replica:
    """What the source had and what the lake showed, for the tests below."""

    tables: dict[str, Table] = field(default_factory=dict)
    discovered: str = ""
    reports: list[str] = field(default_factory=list)
    # By the name of a current table: in the middle and at the end.
    expected: list[dict[str, dict[Key, Row]]] = field(default_factory=list)
    shown: list[dict[str, dict[Key, Row]]] = field(default_factory=list)
    expected_versions: dict[str, dict[Key, list[Version]]] = field(default_factory=dict)
    shown_versions: dict[str, dict[Key, list[Version]]] = field(default_factory=dict)
    # Between these times the source was read at first.
    snapshot: tuple[str, str] = ("", "")
    dead_letters: list[str] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def relations(self) -> Iterator[tuple[str, Table]]:
        """The name of each table in the lake, `source__table`, and the table that it replicates."""
        for connector, source in SOURCES.items():
            for name, table in self.tables.items():
                if connector == "shop" or name in FLAT:
                    yield f"{source}__{name}", table


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


@dataclass
class Stage:
    """The source, the producer and the lake, and what they do in turn."""

    source: postgres.Postgres
    engine: debezium.Engine
    project: Project
    replica: Replica

    def wait(self, until: Callable[[], bool], what: str, seconds: float = 60) -> None:
        """Wait for something that the producer does."""
        end = time.monotonic() + seconds
        while not until():
            self.engine.check()
            if time.monotonic() > end:
                log = self.engine.log.read_text()[-2000:]
                raise RuntimeError(f"waited {seconds} s for {what}: {log}")
            time.sleep(0.1)

    def files(self, topic: str) -> list[Path]:
        """The files of a topic that the producer has written and nobody has delivered yet."""
        return sorted((self.engine.outbox / topic).glob("[!.]*"))

    def reach(self, mark: int) -> None:
        """Wait until everything before now has left the producer."""
        self.source.sql(f"insert into ticketing.mark values ({mark})")
        wanted = f'"mark_id":{mark}'
        topics = [f"{connector}.ticketing.mark" for connector in SOURCES]
        self.wait(
            lambda: all(
                any(wanted in file.read_text() for file in self.files(topic)) for topic in topics
            ),
            f"mark {mark}",
        )

    def deliver(self) -> None:
        """Move what the producer has written into the landing folder."""
        for folder in self.engine.outbox.iterdir():
            if folder.name.endswith(".mark"):
                continue
            (self.project.landing / folder.name).mkdir(parents=True, exist_ok=True)
            for file in self.files(folder.name):
                file.rename(self.project.landing / folder.name / file.name)

    def tidemark(self, *arguments: str) -> str:
        """Run a command as a user does; gives what it printed."""
        started = time.monotonic()
        printed = io.StringIO()
        with self.project.here(), redirect_stdout(printed), redirect_stderr(printed):
            status = cli.main(arguments)
        self.replica.seconds[f"{len(self.replica.seconds)} {arguments[0]}"] = (
            time.monotonic() - started
        )
        assert status == 0, printed.getvalue()
        return printed.getvalue()

    def compare(self, expected: Mapping[str, dict[Key, Row]]) -> None:
        """Note what the current tables show."""
        self.replica.expected.append(
            {name: expected[table.name] for name, table in self.replica.relations()}
        )
        self.replica.shown.append(
            {
                name: truth.shown_content(self.project.spark, f"current.cur_{name}", table)
                for name, table in self.replica.relations()
            }
        )

    def contents(self) -> dict[str, dict[Key, Row]]:
        """What the source has now."""
        return {name: truth.content(self.source, it) for name, it in self.replica.tables.items()}


def _connectors(source: postgres.Postgres, state: Path) -> list[dict[str, str]]:
    # A crash repeats what came after the last flush.
    shared = {**debezium.EXACT, "keys": "", "offset.flush.interval.ms": "4000"}
    flat_tables = ",".join(f"ticketing.{name}" for name in (*FLAT, "mark"))
    return [
        debezium.settings("shop", source, state, **shared),
        debezium.settings(
            "flat",
            source,
            state,
            **shared | debezium.FLATTENED | debezium.WITHOUT_SCHEMA,
            **{"table.include.list": flat_tables},
        ),
    ]


@pytest.fixture(scope="module")
def replica(
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    module_project: Callable[[], Project],
) -> Iterator[Replica]:
    if postgres.programs() is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have postgresql: see .ci/run")
        pytest.skip("PostgreSQL is not installed")
    folder = tmp_path_factory.mktemp("e2e")
    with postgres.running() as source:
        engine = debezium.Engine(
            folder / "outbox", folder / "state", _connectors(source, folder / "state")
        )
        try:
            yield _run(source, engine, module_project(), folder)
        finally:
            engine.kill()


def _run(
    source: postgres.Postgres, engine: debezium.Engine, project: Project, folder: Path
) -> Replica:
    started = time.monotonic()
    replica = Replica()
    stage = Stage(source, engine, project, replica)
    source.sql(SCHEMA.read_text())
    replica.tables = truth.tables(source)
    start = truth.last_change(source)
    engine.start()
    read_from = _now()
    # From the slot's creation on, each change is an event. Nothing changes before.
    slots = "select count(*) from pg_replication_slots where confirmed_flush_lsn is not null"
    stage.wait(lambda: source.sql(slots) == str(len(SOURCES)), "the replication slots")
    for turn in range(1, ROUNDS + 1):
        with clients.working(source, folder, SECONDS, RATE, SEED + turn) as work:
            if turn == 1:
                _declare(stage, read_from)
            _crash(stage)
            with clients.paused(source):
                stage.reach(turn)
                stage.deliver()
                at_mark = stage.contents()
            replica.reports.append(stage.tidemark("run"))
            stage.compare(at_mark)
            clients.finish(work)
    stage.reach(ROUNDS + 1)
    stage.deliver()
    replica.reports.append(stage.tidemark("run"))
    stage.compare(stage.contents())
    for name, table in replica.relations():
        replica.expected_versions[name] = truth.versions(source, table, start)
        relation = f"history.hist_{name}"
        replica.shown_versions[name] = truth.shown_versions(project.spark, relation, table)
    _look_at_files(replica, project.landing)
    dead = project.spark.sql(
        "select table_name, file, `column`, value, reason from tidemark.dead_letter "
        f"where source_name in {tuple(SOURCES.values())}"
    )
    replica.dead_letters = [str(row.asDict()) for row in dead.collect()]
    replica.seconds["all"] = time.monotonic() - started
    print({name: round(seconds, 1) for name, seconds in replica.seconds.items()})
    return replica


def _declare(stage: Stage, read_from: str) -> None:
    """Declare the tables as a user does, after the snapshot. Then a table gets a column."""
    replica = stage.replica
    topics = [f"shop.ticketing.{name}" for name in replica.tables]
    topics += [f"flat.ticketing.{name}" for name in FLAT]
    stage.wait(lambda: all(stage.files(topic) for topic in topics), "the snapshot")
    replica.snapshot = (read_from, _now())
    stage.deliver()
    replica.discovered = stage.tidemark("discover")
    for yml in (stage.project.folder / "models").rglob("*__sources.yml"):
        # A query more for each table and run: test_commands has it.
        sources = yaml.safe_load(yml.read_text())
        for table in sources["sources"][0]["tables"]:
            del table["data_tests"]
        yml.write_text(yaml.safe_dump(sources, sort_keys=False))
    stage.tidemark("add", *SOURCES.values())
    stage.source.sql(ADD_COLUMN)
    replica.tables = truth.tables(stage.source)


def _crash(stage: Stage) -> None:
    """Kill the producer when it has delivered changes that it has not noted, and start it again."""
    offsets = stage.engine.state / "shop.offsets"
    noted = offsets.stat().st_mtime_ns
    stage.wait(lambda: offsets.stat().st_mtime_ns > noted, "the next note of offsets")
    before = len(stage.files("shop.ticketing.orders"))
    stage.wait(lambda: len(stage.files("shop.ticketing.orders")) > before, "further changes")
    stage.engine.kill()
    stage.engine.start()


def _look_at_files(replica: Replica, landing: Path) -> None:
    """Count what the producer wrote: events by operation, and changes that it wrote again."""
    seen: Counter[str] = Counter()
    for file in sorted(landing.glob("shop.*/*.json")):
        if file.name.endswith(".keys.json"):
            continue
        for line in file.read_text().split("\n")[:-1]:
            event = json.loads(line)
            if event is None:
                replica.operations["tombstone"] += 1
                continue
            event = event["payload"]
            replica.operations[event["op"]] += 1
            if event["op"] != "r":
                place = {name: event["source"][name] for name in ("lsn", "table")}
                row = {name: event[name] for name in ("op", "before", "after")}
                seen[json.dumps({**place, **row})] += 1
    replica.repeated = sum(number > 1 for number in seen.values())


def test_discover_declares_every_table(replica: Replica) -> None:
    lines = [line.split() for line in replica.discovered.splitlines() if "__" not in line]
    found = {line[0]: line[1:] for line in lines if line and "." in line[0]}
    for source, tables in (("shop_ticketing", replica.tables), ("flat_ticketing", FLAT)):
        for name in tables:
            key = " ".join(found[f"{source}.{name}"][3:])
            assert key == ", ".join(replica.tables[name].key)
    assert "TODO" not in replica.discovered


def test_the_producer_wrote_what_makes_replication_hard(replica: Replica) -> None:
    """Otherwise the other tests would prove little."""
    assert set(replica.operations) >= {"r", "c", "u", "d", "t", "tombstone"}
    assert replica.repeated > 0


def test_nothing_is_refused(replica: Replica) -> None:
    assert not replica.dead_letters, "\n".join(replica.dead_letters[:40])


@pytest.mark.parametrize("at", [*range(ROUNDS), -1])
def test_current_tables_equal_the_source(replica: Replica, at: int) -> None:
    differences = [
        f"{name} {line}"
        for name, rows in replica.expected[at].items()
        for line in truth.of_contents(rows, replica.shown[at][name])
    ]
    assert not differences, "\n".join(differences[:40])


def test_histories_have_one_version_for_each_state(replica: Replica) -> None:
    differences = [
        f"{name} {line}"
        for name, versions in replica.expected_versions.items()
        for line in truth.of_versions(versions, replica.shown_versions[name], replica.snapshot)
    ]
    assert not differences, "\n".join(differences[:40])
