"""PostgreSQL's logical stream, read by SQL: the messages of its plugin pgoutput."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from tests.e2e.postgres import Postgres

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
# The stream has no value: a large one, stored outside the row, that an update did not change.
UNCHANGED: Final = object()
# Texts as PostgreSQL writes them, None, or UNCHANGED.
Values = Mapping[str, object]


@dataclass(frozen=True)
class Column:
    """A column of a table. `type` is the number of its type in pg_type."""

    name: str
    type: int
    modifier: int


@dataclass(frozen=True)
class Change:
    """A row that was inserted, updated or deleted (I, U, D), or a truncate of a table (T).

    `old` is the row before, or its key alone, as far as the stream has it.
    """

    schema: str
    table: str
    op: str
    columns: tuple[Column, ...]
    old: Values | None
    new: Values | None


@dataclass
class Transaction:
    """A transaction that was committed. `end` is where it ends in the log."""

    committed: datetime
    end: int = 0
    changes: list[Change] = field(default_factory=list)


def position(text: str) -> int:
    """A place in the log, such as 0/16B3748, as a number."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def create_slot(source: Postgres, slot: str, publication: str) -> int:
    """Keep the log from now on; gives the place."""
    source.sql(f"create publication {publication} for tables in schema ticketing")
    answer = source.sql(f"select lsn from pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    return position(answer)


def peek(source: Postgres, slot: str, publication: str) -> list[Transaction]:
    """The transactions behind the place that was confirmed, in the order of their commits."""
    answer = source.sql(
        "select encode(data, 'hex') from pg_logical_slot_peek_binary_changes("
        f"'{slot}', null, null, 'proto_version', '1', 'publication_names', '{publication}')"
    )
    return list(_transactions(bytes.fromhex(line) for line in answer.split("\n") if line))


def confirm(source: Postgres, slot: str, end: int) -> None:
    """Do not show again what is before this place."""
    source.sql(
        f"select pg_replication_slot_advance('{slot}', '{end >> 32:X}/{end & 0xFFFFFFFF:X}')"
    )


class _Reader:
    def __init__(self, message: bytes) -> None:
        self._message = message
        self._at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f"!{form}", self._message, self._at)
        self._at += struct.calcsize(f"!{form}")
        return int(value)

    def letter(self) -> str:
        self._at += 1
        return chr(self._message[self._at - 1])

    def name(self) -> str:
        end = self._message.index(0, self._at)
        found = self._message[self._at : end].decode()
        self._at = end + 1
        return found

    def row(self, columns: tuple[Column, ...]) -> Values:
        return {column.name: self._value() for column in columns[: self.number("h")]}

    def _value(self) -> object:
        kind = self.letter()
        if kind == "n":
            return None
        if kind == "u":
            return UNCHANGED
        size = self.number("i")
        self._at += size
        return self._message[self._at - size : self._at].decode()


def _transactions(messages: Iterator[bytes]) -> Iterator[Transaction]:
    tables: dict[int, tuple[str, str, tuple[Column, ...]]] = {}
    current = Transaction(_EPOCH)
    for message in messages:
        reader = _Reader(message)
        kind = reader.letter()
        if kind == "B":
            reader.number("q")
            current = Transaction(_EPOCH + timedelta(microseconds=reader.number("q")))
        elif kind == "C":
            reader.number("b")
            reader.number("q")
            current.end = reader.number("q")
            yield current
        elif kind == "R":
            number, schema, name = reader.number("I"), reader.name(), reader.name()
            reader.letter()
            tables[number] = (schema, name, tuple(_columns(reader)))
        elif kind in "IUD":
            current.changes.append(_change(kind, reader, tables[reader.number("I")]))
        elif kind == "T":
            count = reader.number("i")
            reader.number("b")
            for _ in range(count):
                schema, name, columns = tables[reader.number("I")]
                current.changes.append(Change(schema, name, "T", columns, None, None))


def _columns(reader: _Reader) -> Iterator[Column]:
    for _ in range(reader.number("h")):
        reader.number("b")
        yield Column(reader.name(), reader.number("I"), reader.number("i"))


def _change(kind: str, reader: _Reader, of: tuple[str, str, tuple[Column, ...]]) -> Change:
    schema, name, columns = of
    old, new = None, None
    part = reader.letter()
    if part in "KO":
        # Of K, only the columns of the key count: the others are NULL.
        old = reader.row(columns)
        part = "" if kind == "D" else reader.letter()
    if part == "N":
        new = reader.row(columns)
    return Change(schema, name, kind, columns, old, new)
