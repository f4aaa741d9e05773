"""Debezium itself, for tests: its embedded engine in a Java process (Engine.java).

Its jars come from the Maven repository, like Spark's, and are verified in the same way.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro

from tests.e2e import mariadb, postgres
from tests.e2e.mariadb import MariaDB
from tests.e2e.postgres import Postgres
from tidemark.spark import jars

LOCK = Path(__file__).with_suffix(".lock")
MARIADB_LOCK = Path(__file__).with_name("debezium_mariadb.lock")
PROGRAM = Path(__file__).with_name("Engine.java")


def settings(name: str, source: Postgres, state: Path, **more: str) -> dict[str, str]:
    """Settings of a connector. Those that make the replica exact are in EXACT."""
    return {
        **_settings(name, source.port, state),
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.user": "postgres",
        "database.password": postgres.PASSWORD,
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "filtered",
        "schema.include.list": "ticketing",
        **more,
    }


def mariadb_settings(name: str, source: MariaDB, state: Path, **more: str) -> dict[str, str]:
    """The same for MariaDB. Those that make the replica exact are in MARIADB_EXACT."""
    return {
        **_settings(name, source.port, state),
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.user": mariadb.USER,
        "database.password": mariadb.PASSWORD,
        # Each connector is a replica of its own.
        "database.server.id": str(1000 + sum(name.encode())),
        "database.include.list": "ticketing",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(state / f"{name}.schemas"),
        **more,
    }


def _settings(name: str, port: int, state: Path) -> dict[str, str]:
    return {
        "name": name,
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "topic.prefix": name,
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(state / f"{name}.offsets"),
        # Fewer and larger files than with the default.
        "poll.interval.ms": "700",
    }


# docs/point_it_at_your_database.md says what each of them is for.
EXACT = {
    "snapshot.mode": "initial",
    "decimal.handling.mode": "precise",
    "time.precision.mode": "adaptive",
    "interval.handling.mode": "string",
    "binary.handling.mode": "bytes",
    "skipped.operations": "none",
    "tombstones.on.delete": "true",
    "heartbeat.interval.ms": "1000",
}

MARIADB_EXACT = {
    "snapshot.mode": "initial",
    "decimal.handling.mode": "precise",
    "bigint.unsigned.handling.mode": "precise",
    "time.precision.mode": "adaptive_time_microseconds",
    "binary.handling.mode": "bytes",
    "enable.time.adjuster": "false",
    "skipped.operations": "none",
    "tombstones.on.delete": "true",
    "heartbeat.interval.ms": "1000",
}

# Without a schema, numbers have no unit and bytes no scale. As texts, values need neither.
WITHOUT_SCHEMA = {
    "converter.schemas.enable": "false",
    "decimal.handling.mode": "string",
    "time.precision.mode": "isostring",
}

FLATTENED = {
    "transforms": "flat",
    "transforms.flat.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.flat.delete.tombstone.handling.mode": "rewrite",
    "transforms.flat.add.fields": "op,source.ts_us,source.lsn,source.sequence,source.snapshot",
}
MARIADB_FLATTENED = {
    **FLATTENED,
    "transforms.flat.add.fields": (
        "op,source.ts_us,source.file,source.pos,source.row,source.snapshot"
    ),
}


@dataclass
class Engine:
    """One Java process with one or more connectors, which write files below `outbox`."""

    outbox: Path
    state: Path
    connectors: Sequence[Mapping[str, str]]
    lock: Path = LOCK
    process: subprocess.Popen[bytes] | None = None
    starts: int = field(default=0)

    @property
    def log(self) -> Path:
        """What the process printed."""
        return self.state / "engine.log"

    def start(self) -> None:
        """Start the engine, or start it again."""
        self.outbox.mkdir(parents=True, exist_ok=True)
        self.state.mkdir(parents=True, exist_ok=True)
        files = []
        for connector in self.connectors:
            file = self.state / f"{connector['name']}.properties"
            file.write_text("".join(f"{name}={value}\n" for name, value in connector.items()))
            files.append(str(file))
        class_path = os.pathsep.join(str(jar) for jar in jars.install([self.lock]))
        command = [jars.require_java(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", *_EXTRA]
        command += ["-cp", class_path, str(PROGRAM), str(self.outbox), *files]
        self.starts += 1
        with self.log.open("a") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def kill(self) -> None:
        """End it as a crash does: it can tell nobody what it has delivered."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, and wait until it has ended."""
        if self.process:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    def check(self) -> None:
        """Raise an error if it has ended by itself."""
        if self.process and self.process.poll() is not None:
            raise RuntimeError(f"Debezium ended: {self.log.read_text()[-3000:]}")

    def wait(self, until: Callable[[], bool], what: str, seconds: float = 60) -> None:
        """Wait for something that it does."""
        end = time.monotonic() + seconds
        while not until():
            self.check()
            if time.monotonic() > end:
                log = self.log.read_text()[-2000:]
                raise RuntimeError(f"waited {seconds} s for {what}: {log}")
            time.sleep(0.1)

    def documents(self) -> dict[str, list[Any]]:
        """What it has written to each topic, in order."""
        return {
            place.name: [it for file in sorted(place.glob("[!.]*.json")) for it in documents(file)]
            for place in self.outbox.iterdir()
        }


def documents(file: Path) -> list[Any]:
    """The documents in a file that the engine wrote. A tombstone is None."""
    if file.suffix == ".avro":
        with file.open("rb") as content:
            return list(fastavro.reader(content))
    return [json.loads(line) for line in file.read_text().split("\n")[:-1]]


_EXTRA: list[str] = os.environ.get("TIDEMARK_E2E_JAVA", "").split()
