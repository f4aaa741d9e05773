"""A source, its producer and the lake: what they do in turn, and what they showed."""

import io
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.e2e import debezium, truth
from tests.e2e.mariadb import MariaDB
from tests.e2e.postgres import Postgres
from tests.e2e.truth import Key, Row, Table, Version
from tests.project import Project
from tidemark import cli

ROUNDS = int(os.environ.get("TIDEMARK_E2E_ROUNDS", "1"))
SEED = int(os.environ.get("TIDEMARK_SEED", "21"))
# The name of each connector's source in the lake, and the tables that it reads, if not all.
Connectors = Mapping[str, tuple[str, Sequence[str] | None]]


@dataclass
class Replica:
    """What the source had and what the lake showed."""

    connectors: Connectors
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
        for source, only in self.connectors.values():
            for name, table in self.tables.items():
                if only is None or name in only:
                    yield f"{source}__{name}", table

    def differences(self, at: int) -> list[str]:
        """How the current tables differ from the source, as lines."""
        return [
            f"{name} {line}"
            for name, rows in self.expected[at].items()
            for line in truth.of_contents(rows, self.shown[at][name])
        ]

    def differences_of_versions(self) -> list[str]:
        """How the histories differ from the source, as lines."""
        return [
            f"{name} {line}"
            for name, versions in self.expected_versions.items()
            for line in truth.of_versions(versions, self.shown_versions[name], self.snapshot)
        ]


def now() -> str:
    """The time, as truth.py writes times."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


@dataclass
class Lake:
    """The source and the lake, and what Tidemark does with it."""

    source: Postgres | MariaDB
    project: Project
    replica: Replica
    # What a table has now.
    content: Callable[[Table], dict[Key, Row]]

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
        return {name: self.content(table) for name, table in self.replica.tables.items()}

    def drop_data_tests(self) -> None:
        """Without them a run has a query less for each table: test_commands has them."""
        for yml in (self.project.folder / "models").rglob("*__sources.yml"):
            sources = yaml.safe_load(yml.read_text())
            for table in sources["sources"][0]["tables"]:
                table.pop("data_tests", None)
            yml.write_text(yaml.safe_dump(sources, sort_keys=False))

    def look_at_lake(self) -> None:
        """Note the histories, and what was refused."""
        replica = self.replica
        for name, table in replica.relations():
            relation = f"history.hist_{name}"
            replica.shown_versions[name] = truth.shown_versions(self.project.spark, relation, table)
        sources = ", ".join(f"'{source}'" for source, _ in replica.connectors.values())
        dead = self.project.spark.sql(
            "select table_name, file, `column`, value, reason from tidemark.dead_letter "
            f"where source_name in ({sources})"
        )
        replica.dead_letters = [str(row.asDict()) for row in dead.collect()]


@dataclass
class Stage(Lake):
    """A lake that Debezium fills."""

    engine: debezium.Engine

    def files(self, topic: str) -> list[Path]:
        """The files of a topic that the producer has written and nobody has delivered yet."""
        return sorted((self.engine.outbox / topic).glob("[!.]*"))

    def reach(self, mark: int) -> None:
        """Wait until everything before now has left the producer."""
        self.source.sql(f"insert into ticketing.mark values ({mark})")
        wanted = f'"mark_id": {mark},'
        topics = [f"{name}.ticketing.mark" for name in self.replica.connectors]
        self.engine.wait(
            lambda: all(
                any(
                    wanted in json.dumps(it).replace("}", ",")
                    for file in self.files(topic)
                    for it in debezium.documents(file)
                )
                for topic in topics
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

    def declare(self, read_from: str) -> None:
        """Declare the tables as a user does, after the snapshot."""
        replica = self.replica
        topics = [
            f"{connector}.ticketing.{name}"
            for connector, (_, only) in replica.connectors.items()
            for name in only or replica.tables
        ]
        self.engine.wait(lambda: all(self.files(topic) for topic in topics), "the snapshot")
        replica.snapshot = (read_from, now())
        self.deliver()
        replica.discovered = self.tidemark("discover")
        self.drop_data_tests()
        self.tidemark("add", *(source for source, _ in replica.connectors.values()))

    def crash(self, topic: str, older: bytes = b"") -> None:
        """Kill the producer when it has delivered changes that it has not noted; start it again.

        `older`: the notes of an earlier time, from which it starts.
        """
        offsets = self._next_notes(topic)
        before = len(self.files(topic))
        self.engine.wait(lambda: len(self.files(topic)) > before, "further changes")
        self.engine.kill()
        if older:
            offsets.write_bytes(older)
        self.engine.start()

    def offsets(self, topic: str) -> Path:
        """Where the producer of a topic notes how far it is."""
        return self.engine.state / f"{topic.split('.')[0]}.offsets"

    def notes(self, topic: str) -> bytes:
        """How far the producer is from now on, when it is beyond its snapshot."""
        file = self.offsets(topic)
        self.engine.wait(
            lambda: file.exists() and file.stat().st_size > 0, "the first note of offsets"
        )
        self.engine.wait(lambda: b'"snapshot"' not in file.read_bytes(), "notes of changes")
        return self._next_notes(topic).read_bytes()

    def _next_notes(self, topic: str) -> Path:
        offsets = self.offsets(topic)
        noted = offsets.stat().st_mtime_ns
        self.engine.wait(lambda: offsets.stat().st_mtime_ns > noted, "the next note of offsets")
        return offsets

    def finish(self, turn: int) -> None:
        """Land what is left, and note how the current tables are at the end."""
        self.reach(turn)
        self.deliver()
        self.replica.reports.append(self.tidemark("run"))
        self.compare(self.contents())

    def look(self, connector: str, place: Sequence[str]) -> None:
        """Note the histories, what was refused, and what a connector wrote.

        `place`: the fields of an event's source that say where in the log it was.
        """
        replica = self.replica
        self.look_at_lake()
        seen: Counter[str] = Counter()
        for event in self._events(connector):
            replica.operations[event["op"] if event else "tombstone"] += 1
            if event and event["op"] != "r":
                where = {name: event["source"][name] for name in place}
                row = {name: event[name] for name in ("op", "before", "after")}
                seen[json.dumps({**where, **row}, default=str)] += 1
        replica.repeated = sum(number > 1 for number in seen.values())

    def _events(self, connector: str) -> Iterator[Any]:
        for file in sorted(self.project.landing.glob(f"{connector}.*/*.*")):
            if ".keys." not in file.name:
                for event in debezium.documents(file):
                    yield event["payload"] if event and "payload" in event else event


class ReplicaTests:
    """What holds for each replica. The module of a subclass has the fixture `replica`."""

    def test_discover_declares_every_table(self, replica: Replica) -> None:
        lines = [line.split() for line in replica.discovered.splitlines() if "__" not in line]
        found = {line[0]: line[1:] for line in lines if line and "." in line[0]}
        for source, only in replica.connectors.values():
            for name in only or replica.tables:
                key = " ".join(found[f"{source}.{name}"][3:])
                assert key == ", ".join(replica.tables[name].key)
        assert "TODO" not in replica.discovered

    def test_the_producer_wrote_what_makes_replication_hard(self, replica: Replica) -> None:
        """Otherwise the other tests would prove little."""
        assert set(replica.operations) >= {"r", "c", "u", "d", "t"}
        # The sink leaves them out of Avro files.
        assert replica.operations["tombstone"] or "avro" in replica.connectors
        assert replica.repeated > 0

    def test_nothing_is_refused(self, replica: Replica) -> None:
        assert not replica.dead_letters, "\n".join(replica.dead_letters[:40])

    def test_current_tables_equal_the_source(self, replica: Replica) -> None:
        """While clients work, and at the end."""
        assert len(replica.shown) == len(replica.reports) >= 2
        for at in range(len(replica.shown)):
            differences = replica.differences(at)
            assert not differences, "\n".join(differences[:40])

    def test_histories_have_one_version_for_each_state(self, replica: Replica) -> None:
        differences = replica.differences_of_versions()
        assert not differences, "\n".join(differences[:40])
