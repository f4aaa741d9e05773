"""The same changes as files of every format, each with settings that are drawn at random.

`Files` say how records become bytes: CSV, JSON, Avro, Parquet. A `Feed` says what stands in a
record (an operation, a position, an envelope) and how files are called. What landing has to be
told of it goes into the feed's settings; the rest it must find out.
"""

import base64
import gzip
import io
import json
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import fastavro
import pyarrow as pa
import pyarrow.parquet

from tests.oracle import Event, Values

BATCHES = 2
FILES = 3
LOADS = 2

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOADED_AT = datetime(2023, 6, 1, tzinfo=UTC)
START = datetime(2024, 1, 1, tzinfo=UTC)
# In Berlin the clock goes back between the files.
FILES_START = datetime(2024, 10, 27, 0, 30, tzinfo=UTC)
# Doubles cannot tell the numbers from here on apart.
FIRST = 2**53 + 1

COLUMNS = {
    "id": "int",
    "part": "string",
    "info_name": "string",
    "info_note": "string",
    "qty": "int",
    "total": "bigint",
    "amount": "decimal(20,2)",
    "ratio": "double",
    "is_open": "boolean",
    "day": "date",
    "moment": "timestamp",
    "wall": "timestamp_ntz",
    "data": "binary",
}
# What a connector puts into the columns of a deleted row that it does not know.
DEFAULTS: Values = {
    "string": "",
    "int": 0,
    "bigint": 0,
    "decimal(20,2)": Decimal("0.00"),
    "double": 0.0,
    "boolean": False,
    "date": EPOCH.date(),
    "timestamp": EPOCH,
    "timestamp_ntz": EPOCH.replace(tzinfo=None),
    "binary": b"",
}
IDS = range(1, 13)
PARTS = ("", "a,b", "é\n")
_TEXTS = (
    *("", "NULL", "null", "\\N", "nil", "a", "A", " a ", "true", "-0.01", "2024", "\\", "'", '"'),
    *("a,b;c|d\te||f|~|g\x01h", 'say "hi", "ho"', 'ends with "', "a\nb", "a\r\nb", "a\rb", "#"),
    *("é ß 漢字 🎉", "\u2028\x85\x0b", "[1, 2]", '{"a": 1}', "null\n", "D", "AQ=="),
)
_TIMES = (
    datetime(2024, 2, 29, 10, 11, 12, 123000),
    datetime(2024, 3, 31, 2, 30),
    datetime(1970, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999000),
    datetime(1883, 11, 18, 12, 3, 57, 1000),
    datetime(1582, 10, 10, 1, 2, 3),
    datetime(1, 1, 1, 0, 0, 0, 1000),
    datetime(9999, 12, 31, 23, 59, 59, 999000),
)
POOLS: dict[str, Sequence[Any]] = {
    "info_name": _TEXTS,
    "info_note": ("", "NULL", "x"),
    "qty": (0, 1, -1, 2**31 - 1, -(2**31)),
    "total": (0, 7, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**63 - 1, -(2**63)),
    "amount": [Decimal(cents).scaleb(-2) for cents in (110, -1, 0, 1234511, -100, 10**20 - 1)],
    "ratio": (0.1, 1 / 3, -1.5e-7, 1e22, 123456789.0, 1.7976931348623157e308, 5e-324),
    "is_open": (True, False),
    "day": [time.date() for time in _TIMES],
    "moment": [time.replace(tzinfo=UTC) for time in _TIMES],
    "wall": _TIMES,
    "data": (b"", b"\x00\xff\x80", b"NULL", b"deadbeef", b"\x01"),
}


# --- changes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """An operation (R: of the initial load) on a row; `old` is the row before, if there was one."""

    op: str
    row: Values
    seq: int
    at: datetime
    old: Values | None = None


# Changes with the same `seq`; they stand in one file, in this order.
Transaction = list[Change]


@dataclass(frozen=True)
class Changes:
    """All that happens to one table, in order."""

    load: list[Transaction]
    later: list[Transaction]

    def events(self, key: Sequence[str]) -> list[Event]:
        """As the oracle takes them; whatever the files, the tables must show these."""
        everything = [change for part in (*self.load, *self.later) for change in part]
        return [
            Event(
                key=tuple(change.row[name] for name in key),
                op=change.op,
                sequence=(change.seq,),
                changed_at=_count(change.at, "microseconds"),
                row=change.row,
                file_at=0,
                file="",
                position=position,
                is_initial=change.op == "R",
            )
            for position, change in enumerate(everything)
        ]


def drawn_changes(seed: str, count: int) -> Changes:
    """Inserts, updates, deletes and moves of rows, in any order; some share a transaction."""
    rng = random.Random(seed)
    rows: dict[tuple[int, str], Values] = {}

    def change(op: str, key: tuple[int, str], seq: int, at: datetime) -> Change:
        old = rows.pop(key, None)
        row = old if old and op == "D" else _row(rng, old)
        row = row | {"id": key[0], "part": key[1]}
        if op != "D":
            rows[key] = row
        return Change(op, row, seq, at, old)

    load = [
        [change("R", (number, rng.choice(PARTS)), FIRST - 1, LOADED_AT)]
        for number in rng.sample(IDS, 8)
    ]
    later: list[Transaction] = []
    seq, at = FIRST, START
    for _ in range(count):
        seq += rng.choice((1, 1, 2, 3))
        at = max(START, at + timedelta(milliseconds=rng.choice((0, 1, 1000, 60_000, -2000))))
        key, other = ((rng.choice(IDS), rng.choice(PARTS)) for _ in range(2))
        kind = rng.random()
        if kind < 0.08 and key in rows and other != key:
            later.append([change("D", key, seq, at), change("I", other, seq, at)])
            continue
        later.append([change("D" if kind < 0.25 else rng.choice("IU"), key, seq, at)])
        if rng.random() < 0.15:
            tie = change(rng.choice("IUD"), key, seq, at)
            # Rule 3: what equals the change before it would be its copy.
            if (tie.op, tie.row) != (later[-1][0].op, later[-1][0].row):
                later[-1].append(tie)
    return Changes(load, later)


def _row(rng: random.Random, old: Values | None) -> Values:
    """As it was, with one other value, or all new."""
    new = {name: None if rng.random() < 0.2 else rng.choice(POOLS[name]) for name in POOLS}
    changed = rng.choice([(), rng.sample(list(POOLS), 1), POOLS]) if old else POOLS
    return (old or {}) | {name: new[name] for name in changed}


def _count(at: date, unit: str) -> int:
    """How many of the unit since 1970; days of a date."""
    if not isinstance(at, datetime):
        return (at - EPOCH.date()).days
    return (at.replace(tzinfo=UTC) - EPOCH) // timedelta(**{unit: 1})


# --- records become bytes -----------------------------------------------------------------------


class Draws(random.Random):
    """Random settings, remembered: a test that fails tells them."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.made: dict[str, Any] = {}

    def pick(self, name: str, *options: Any) -> Any:
        self.made[name] = self.choice(options)
        return self.made[name]


# A Spark type, perhaps with Kafka Connect's name for its meaning ("int@io.debezium.time.Date"),
# or the fields of a record in the record.
Type = str | dict[str, "Type"]
Columns = dict[str, Type]
Record = dict[Any, Any]

_NOT_NULL = ("id", "part", "op", "source")
SPELLINGS: dict[str, Callable[[str], str]] = {
    "as declared": str,
    "upper case": str.upper,
    "with blanks": lambda name: name.replace("_", " ") if name in COLUMNS else name,
}


class Files(ABC):
    """Writes records into files of one type; `settings` are what landing must be told."""

    # Whether a file says what its values mean.
    says_types = False

    def __init__(self, draws: Draws, suffix: str, spellings: Sequence[str] = (*SPELLINGS,)) -> None:
        self.draws = draws
        self.settings: dict[str, Any] = {}
        self.gzip = draws.pick("gzip", None, None, ".gz", "not in the name")
        self.suffix = suffix + self.packed_suffix
        self.spelling = SPELLINGS[draws.pick("names", *spellings)]

    @property
    def packed_suffix(self) -> str:
        return ".gz" if self.gzip == ".gz" else ""

    def spelled(self, fields: Record) -> Record:
        """The fields under the names that they have in the files."""
        return {self.spelling(name): value for name, value in fields.items()}

    def content(self, columns: Columns, records: list[Any], has_header: bool) -> bytes:
        """A whole file; only CSV may lack a header."""
        content = self.written(columns, records, has_header)
        return gzip.compress(content, mtime=0) if self.gzip else content

    @abstractmethod
    def written(self, columns: Columns, records: list[Any], has_header: bool) -> bytes: ...


class Csv(Files):
    """CSV of any dialect."""

    def __init__(self, draws: Draws) -> None:
        super().__init__(draws, ".csv")
        self.is_quoted = draws.pick("quote", '"', '"', "none") == '"'
        if self.is_quoted:
            self.delimiter = draws.pick("delimiter", ",", ";", "\t", "|", "||", "|~|", "\x01")
            end = draws.pick("row_delimiter", None, None, "~\n~", "\x1e")
            nulls = draws.pick("null_text", None, ["\\N"], ["NULL"], ["", "nil"])
        else:
            # Nothing of this is in the data.
            self.delimiter = draws.pick("delimiter", "\x1f", "<|>", "§§", "\x02")
            end = draws.pick("row_delimiter", "\x1e", "<end>", "\x03\n\x04")
            nulls = draws.pick("null_text", ["<null>"], ["<null>", "?NULL"])
        self.end: str = end or draws.pick("line end", "\n", "\r\n")
        self.nulls = nulls or ["", "NULL"]
        self.encoding: str = draws.pick("encoding", *["utf-8"] * 3, "utf-16-le", "gb18030")
        self.binary = draws.pick("binary_text", "hex", "HEX", "base64")
        self.words = draws.pick("booleans", ("true", "false"), ("t", "f"), ("1", "0"))
        self.double = draws.pick("doubles", "{!r}", "{:+.16e}")
        self.time = draws.pick("times", " milliseconds", "Tmicroseconds", " auto")
        self.zone = draws.pick("zone", "", "Z", "+00:00")
        self.is_ended: bool = draws.pick("final row_delimiter", True, True, False)
        self.settings |= {"delimiter": self.delimiter, "binary_text": self.binary.lower()}
        self.settings |= {} if self.is_quoted else {"quote": "none"}
        self.settings |= {"row_delimiter": end} if end else {}
        self.settings |= {"null_text": nulls} if nulls else {}
        self.settings |= {} if self.encoding == "utf-8" else {"encoding": self.encoding}

    def written(self, columns: Columns, records: list[Any], has_header: bool) -> bytes:
        rows = [list(record.values()) for record in records]
        if has_header:
            order = self.draws.sample(list(columns), len(columns))
            rows = [order, *([record[name] for name in order] for record in records)]
        text = self.end.join(self.delimiter.join(map(self._field, row)) for row in rows)
        return (text + self.end * self.is_ended).encode(self.encoding)

    def _field(self, value: Any) -> str:
        if value is None:
            return str(self.draws.choice(self.nulls))
        text = self._text(value)
        special = {'"', "\n", "\r", *self.delimiter, *self.end}
        must = text in self.nulls or any(character in text for character in special)
        if self.is_quoted and (must or self.draws.random() < 0.1):
            return '"' + text.replace('"', '""') + '"'
        return text

    def _text(self, value: Any) -> str:
        match value:
            case bool():
                return str(self.words[not value])
            case float():
                return str(self.double.format(value))
            case datetime():
                text = value.replace(tzinfo=None).isoformat(self.time[0], self.time[1:])
                return text + (self.zone if value.tzinfo else "")
            case bytes() if self.binary == "base64":
                return base64.b64encode(value).decode()
            case bytes():
                return value.hex().upper() if self.binary == "HEX" else value.hex()
        return str(value)


class Json(Files):
    """JSON: as Kafka Connect's converter writes it, or as documents."""

    def __init__(self, draws: Draws, *, connect: bool) -> None:
        self.layout = draws.pick("layout", "lines", "array", "concatenated", "pretty")
        suffixes = (".json", ".jsonl", ".ndjson") if self.layout == "lines" else (".json",)
        super().__init__(draws, draws.pick("suffix", *suffixes))
        self.is_ascii = draws.pick("ascii", True, False)
        self.says_types = connect and draws.pick("schemas", True, False)
        self.is_mongo = not connect and draws.pick("extended JSON", True, False)
        self.decimals = draws.pick("decimals", "text", "number", *["base64"] * connect)
        if connect and not self.says_types and self.decimals != "number":
            self.settings["decimals"] = self.decimals
        self.is_hex = not self.says_types and draws.pick("hex", True, False)
        if self.is_hex:
            self.settings["binary_text"] = "hex"

    def written(self, columns: Columns, records: list[Any], has_header: bool) -> bytes:
        texts = [self._json(self._message(record, columns)) for record in records]
        if self.layout == "array":
            return f"[{', '.join(texts)}]".encode()
        between = "" if self.layout == "concatenated" else "\n"
        return (between.join(texts) + self.draws.choice(("", "\n"))).encode()

    def _message(self, record: Record | None, columns: Columns) -> Any:
        """A record that is None is a tombstone."""
        payload = self._value(record, columns)
        if not self.says_types:
            return payload
        if record is None:
            return self.draws.choice((None, {"schema": None, "payload": None}))
        types = {name: columns.get(name, "string") for name in record}
        return {"schema": self._schema(types), "payload": payload}

    def _value(self, value: Any, of: Type) -> Any:
        if isinstance(value, dict):
            types: Columns = of if isinstance(of, dict) else {}
            return {name: self._value(value[name], types.get(name, "string")) for name in value}
        if self.is_mongo and value is not None and of in _EXTENDED:
            return _EXTENDED[str(of)](value)
        match value:
            case Decimal() if self.decimals == "base64":
                return base64.b64encode(_unscaled(value)).decode()
            case Decimal() if self.decimals == "text":
                return str(value)
            case bytes():
                return value.hex() if self.is_hex else base64.b64encode(value).decode()
            case datetime() if value.tzinfo:
                return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            case date():
                return value.isoformat()
        return value

    def _json(self, value: Any) -> str:
        """Decimals are numbers with all their digits, which `json` cannot write."""
        if isinstance(value, dict):
            fields = (f"{json.dumps(name)}: {self._json(value[name])}" for name in value)
            return "{" + (",\n  " if self.layout == "pretty" else ", ").join(fields) + "}"
        if isinstance(value, Decimal):
            return str(value)
        return json.dumps(value, ensure_ascii=self.is_ascii)

    def _schema(self, of: Type) -> Record:
        if isinstance(of, dict):
            fields = [
                {**self._schema(inner), "optional": name.lower() not in _NOT_NULL, "field": name}
                for name, inner in of.items()
            ]
            return {"type": "struct", "fields": fields}
        name, _, meaning = of.partition("@")
        if name == "decimal(20,2)" and self.decimals == "text":
            return {"type": "string"}
        schema: Record = {"type": _CONNECT.get(name, name)}
        if name == "decimal(20,2)":
            schema["parameters"] = {"scale": "2", "connect.decimal.precision": "20"}
        return schema | ({"name": meaning, "version": 1} if meaning else {})


_CONNECT = {"int": "int32", "bigint": "int64", "binary": "bytes", "decimal(20,2)": "bytes"}
_EXTENDED: dict[str, Callable[[Any], Any]] = {
    "int": lambda value: {"$numberInt": str(value)},
    "bigint": lambda value: {"$numberLong": str(value)},
    "double": lambda value: {"$numberDouble": str(value)},
    "decimal(20,2)": lambda value: {"$numberDecimal": str(value)},
    "timestamp": lambda value: {"$date": {"$numberLong": str(_count(value, "milliseconds"))}},
}


def _unscaled(value: Decimal) -> bytes:
    """As Java's BigInteger writes it: the fewest bytes that keep the sign."""
    number = int(value.scaleb(2))
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


class Avro(Files):
    """Avro, with Kafka Connect's names for types or without."""

    def __init__(self, draws: Draws, *, connect: bool) -> None:
        # Names in Avro have no blanks.
        super().__init__(draws, ".avro", ("as declared", "upper case"))
        self.says_types = connect and draws.pick("connect.name", True, True, False)
        self.codec = draws.pick("codec", "null", "deflate", "snappy")
        self.null_first = draws.pick("null first", True, False)
        unit = draws.pick("unit", "millis", "micros")
        fixed = {"type": "fixed", "size": 9, "name": "Amount"}
        decimal = draws.pick("decimal", fixed, {"type": "bytes"})
        self.types: dict[str, Any] = {
            "bigint": "long",
            "binary": "bytes",
            "decimal(20,2)": decimal | {"logicalType": "decimal", "precision": 20, "scale": 2},
            "date": {"type": "int", "logicalType": "date"},
            "timestamp": {"type": "long", "logicalType": f"timestamp-{unit}"},
            "timestamp_ntz": {"type": "long", "logicalType": f"local-timestamp-{unit}"},
        }

    def written(self, columns: Columns, records: list[Any], has_header: bool) -> bytes:
        file = io.BytesIO()
        schema = fastavro.parse_schema(self._schema("Envelope", columns, []))
        interval = self.draws.choice((100, 16000))
        fastavro.writer(file, schema, records, codec=self.codec, sync_interval=interval)
        return file.getvalue()

    def _schema(self, record: str, columns: Columns, known: list[Type]) -> Record:
        fields = []
        for name in self.draws.sample(list(columns), len(columns)):
            of = self._type(name, columns[name], known)
            field: Record = {"name": name, "type": of}
            if name.lower() not in _NOT_NULL:
                field["type"] = ["null", of] if self.null_first else [of, "null"]
                field |= {"default": None} if self.null_first else {}
            fields.append(field)
        return {"type": "record", "name": record, "fields": fields}

    def _type(self, field: str, of: Type, known: list[Type]) -> Any:
        if isinstance(of, dict):
            # What `before` and `after` are is told once, and then by name.
            if of in known:
                return "Value"
            known.append(of)
            return self._schema("Value" if field in ("before", "after") else field, of, known)
        name, _, meaning = of.partition("@")
        found = self.types.get(name, name)
        if not meaning or not self.says_types:
            return found
        described = found if isinstance(found, dict) else {"type": found}
        return {**described, "connect.version": 1, "connect.name": meaning}


class Parquet(Files):
    """Parquet; one file may have wider types than another."""

    def __init__(self, draws: Draws) -> None:
        super().__init__(draws, ".parquet")
        self.layout = {
            "compression": draws.pick("compression", "none", "snappy", "gzip", "zstd"),
            "version": draws.pick("version", "1.0", "2.4", "2.6"),
            "use_dictionary": draws.pick("dictionary", True, False),
            "store_schema": draws.pick("Arrow's schema", True, False),
            "store_decimal_as_integer": draws.pick("decimals", True, False, False),
            "coerce_timestamps": draws.pick("unit", "ms", "us"),
        }
        self.zones = draws.pick("zones", (None, None), ("UTC", "UTC"), ("Europe/Berlin", None))

    def written(self, columns: Columns, records: list[Any], has_header: bool) -> bytes:
        order = self.draws.sample(list(columns), len(columns))
        is_wide = self.draws.choice((True, False))
        types = self._type({name: columns[name] for name in order}, is_wide)
        rows = pa.Table.from_pylist(records, pa.schema(types))
        size = self.draws.choice((1, 7, 10_000))
        file = io.BytesIO()
        pa.parquet.write_table(rows, file, row_group_size=size, **self.layout)
        return file.getvalue()

    def _type(self, of: Type, is_wide: bool) -> Any:
        if isinstance(of, dict):
            return pa.struct(
                [
                    pa.field(name, self._type(inner, is_wide), name.lower() not in _NOT_NULL)
                    for name, inner in of.items()
                ]
            )
        types = {
            "int": pa.int64() if is_wide else pa.int32(),
            "bigint": pa.int64(),
            "decimal(20,2)": pa.decimal128(26, 4) if is_wide else pa.decimal128(20, 2),
            "double": pa.float64(),
            "boolean": pa.bool_(),
            "date": pa.date32(),
            "timestamp": pa.timestamp("us", self.zones[0]),
            "timestamp_ntz": pa.timestamp("us", self.zones[1]),
            "binary": pa.binary(),
        }
        return types.get(of.partition("@")[0], pa.string())


# --- what stands in the records -----------------------------------------------------------------


@dataclass(frozen=True)
class File:
    """A part of the changes: the batch in which it arrives, and the one in which it does again."""

    number: int
    is_load: bool
    batch: int
    again: int | None
    is_copy: bool = False

    @property
    def at(self) -> datetime:
        """A copy is a little later than what it copies."""
        since = LOADED_AT if self.is_load else FILES_START
        return since + timedelta(seconds=900 * self.number + self.is_copy)


@dataclass(frozen=True)
class Arrival:
    """A file as it lands."""

    batch: int
    path: str
    content: bytes
    modified: float


class Feed(ABC):
    """What one format says of changes, in the files of one table or of several."""

    # Whether `seq` is a column that orders the changes.
    has_seq = True
    # Whether the place in the files orders them.
    by_place = False
    # Whether a file may come again under another name.
    may_copy = True
    # Whether the time of every change is told.
    has_times = True
    # Whether a row that gets another key is one record.
    moves_rows = False

    def __init__(self, draws: Draws, files: Files) -> None:
        self.draws = draws
        self.files = files
        self.key: tuple[str, ...] = draws.pick("key", ("id",), ("id", "part"))
        self.settings: dict[str, Any] = dict(files.settings)

    @cached_property
    def plan(self) -> list[File]:
        """When the files arrive; the same for all tables that share them."""
        loads = [self._planned(number, True, 0) for number in range(LOADS)]
        return loads + [self._planned(n, False, n // FILES) for n in range(FILES * BATCHES)]

    def _planned(self, number: int, is_load: bool, due: int) -> File:
        some = self.draws.random
        batch = self.draws.randrange(due, BATCHES) if some() < 0.3 else due
        # A copy may come in the same batch; the same file again comes later.
        since = batch if self.may_copy else batch + 1
        again = self.draws.randrange(since, BATCHES) if since < BATCHES and some() < 0.3 else None
        return File(number, is_load, batch, again)

    @property
    def columns(self) -> dict[str, str]:
        """The declared columns."""
        return COLUMNS | ({"seq": "bigint"} if self.has_seq else {})

    def settings_of(self, table: str) -> dict[str, Any]:
        """The feed's settings as the table (`source.table`) declares them."""
        ordered = {"sequence": "seq", "exclude_columns": "seq"} if self.has_seq else {}
        return ordered | self.settings

    def arrivals(self, table: str, changes: Changes) -> Iterator[Arrival]:
        """The files of all batches."""
        for file in self.plan:
            found, of = (changes.load, LOADS) if file.is_load else (changes.later, FILES * BATCHES)
            part = found[file.number * len(found) // of : (file.number + 1) * len(found) // of]
            if not self.by_place and self.draws.random() < 0.5:
                part = self.draws.sample(part, len(part))
            content = self._content(table, part, file)
            modified = file.at.timestamp() + 1
            yield Arrival(file.batch, self.path(table, file), content, modified)
            if file.again is not None:
                copy = replace(file, is_copy=self.may_copy)
                yield Arrival(file.again, self.path(table, copy), content, modified + 1)

    def _content(self, table: str, part: list[Transaction], file: File) -> bytes:
        steps = (change for transaction in part for change in self._steps(transaction))
        records = [record for change in steps for record in self.records(table, change)]
        header = self.settings.get("header")
        has_header = header == "all" or (header == "load" and file.is_load)
        return self.files.content(self.fields(file.is_load), records, has_header)

    def _steps(self, transaction: Transaction) -> Transaction:
        first, last = transaction[0], transaction[-1]
        if self.moves_rows and is_moved(first.row, last.row):
            return [replace(last, op="U", old=first.row)]
        return transaction

    def row(self, change: Change) -> Record:
        """The row's columns; of a delete only the key and the sequence mean something."""
        row = change.row if change.op != "D" else self._left(change.row)
        return {name: change.seq if name == "seq" else row[name] for name in self.columns}

    def _left(self, row: Values) -> Values:
        is_text = isinstance(self.files, Csv)
        others = {
            "row": row,
            "nothing": dict.fromkeys(row),
            "defaults": {name: DEFAULTS[of] for name, of in COLUMNS.items()},
            "junk": dict.fromkeys(row, "?"),
        }[self.draws.choice(["row", "nothing", "defaults", *["junk"] * is_text])]
        return others | {name: row[name] for name in (self.key if is_text else ("id", "part"))}

    @abstractmethod
    def fields(self, is_load: bool) -> Columns:
        """The columns of a file."""

    @abstractmethod
    def records(self, table: str, change: Change) -> Iterator[Record | None]:
        """What the file has for a change."""

    @abstractmethod
    def path(self, table: str, file: File) -> str:
        """Where the file lands."""


def is_moved(old: Values, new: Values) -> bool:
    return any(old[name] != new[name] for name in ("id", "part"))


class Dms(Feed):
    """AWS DMS, CSV or Parquet."""

    headers: tuple[str, ...] = ("none", "load", "all")
    befores: tuple[bool, ...] = (True, False)

    def __init__(self, draws: Draws, files: Csv | Parquet) -> None:
        super().__init__(draws, files)
        self.settings |= {"format": "dms", "loaded_at": f"{LOADED_AT:%Y-%m-%d}"}
        self.has_seq = draws.pick("sequence", True, True, False)
        # Without it the place is the order: a copy under another name would be a change.
        self.by_place = not self.has_seq
        self.may_copy = self.has_seq
        self.has_times = draws.pick("timestamp_column", True, True, False)
        self.settings |= {"timestamp_column": "ts"} if self.has_times else {}
        self.op_in_load = draws.pick("op_in_load", True, False)
        if isinstance(files, Csv):
            self.settings["header"] = draws.pick("header", *self.headers)
            self.settings["op_in_load"] = self.op_in_load
        self.moves_rows = draws.pick("before images", *self.befores)
        self.settings |= {"before_image_prefix": "BI_"} if self.moves_rows else {}
        self.partition = draws.pick(
            *("partition", "", "%Y/%m/%d/", "%Y-%m-%d-%H/", "%Y%m/", "%m/%Y/%d/", "%d_%m_%Y/")
        )
        self.zone = draws.pick("file_time_zone", "UTC", "Europe/Berlin")
        self.settings |= {"file_time_zone": self.zone} if self.zone != "UTC" else {}

    def fields(self, is_load: bool) -> Columns:
        columns: Columns = {} if is_load and not self.op_in_load else {"Op": "string"}
        columns |= {"ts": "string"} if self.has_times else {}
        before = self.key if self.moves_rows else ()
        columns |= self.columns | {f"BI_{name}": COLUMNS[name] for name in before}
        return self.files.spelled(columns)

    def records(self, table: str, change: Change) -> Iterator[Record]:
        is_load = change.op == "R"
        record: Record = {}
        if not is_load or self.op_in_load:
            record["Op"] = "I" if is_load else change.op
        if self.has_times:
            # A row of the load has the time when it was transferred: perhaps after changes.
            at = START + timedelta(days=1) if is_load else change.at
            record["ts"] = f"{at:%Y-%m-%d %H:%M:%S.%f}"
        record |= self.row(change)
        if is_load and self.has_seq:
            record["seq"] = None
        if self.moves_rows:
            old = (change.op == "U" and change.old) or {}
            record |= {f"BI_{name}": old.get(name) for name in self.key}
        yield self.files.spelled(record)

    def path(self, table: str, file: File) -> str:
        folder = f"{table.replace('.', '/')}/"
        if file.is_load:
            # The counter is hexadecimal.
            return f"{folder}LOAD{file.number + 9 + 5 * file.is_copy:08X}{self.files.suffix}"
        return f"{folder}{self._time(file, f'{self.partition}%Y%m%d-%H%M%S')}"

    def _time(self, file: File, form: str) -> str:
        local = file.at.astimezone(ZoneInfo(self.zone))
        return f"{local:{form}}{file.number:03d}{self.files.suffix}"


class Transactions(Dms):
    """AWS DMS with transaction files, which hold the changes of several tables."""

    # Columns cannot be added to them, nor a header.
    headers = ("none", "load")
    befores = (False,)

    def __init__(self, draws: Draws, files: Csv) -> None:
        super().__init__(draws, files)
        # The records of the next table come behind.
        files.is_ended = True
        self.settings["transactions_path"] = "all/cdc"
        self.prefix = draws.pick("source_table", "", "Shop")

    def settings_of(self, table: str) -> dict[str, Any]:
        named = {"source_table": self.prefix + table} if self.prefix else {}
        return super().settings_of(table) | named

    def records(self, table: str, change: Change) -> Iterator[Record]:
        """With table and schema behind the operation; sometimes there is one of another table."""
        for record in super().records(table, change):
            if change.op == "R":
                yield record
                continue
            schema, name = (self.prefix + table).split(".")
            op, *rest = record.values()
            for other in self.draws.choice(([], [], [(name, "other"), ("other", schema)])):
                yield dict(enumerate((op, *other, *rest[: self.draws.choice((0, 3, None))])))
            yield dict(enumerate((op, name, schema, *rest)))

    def path(self, table: str, file: File) -> str:
        if file.is_load:
            return super().path(table, file)
        return f"all/cdc/CDC_TXN-{self._time(file, '%Y%m%d%H%M%S')}"


class Debezium(Feed):
    """Debezium's envelopes, or records flattened by ExtractNewRecordState."""

    def __init__(self, draws: Draws, files: Files, *, is_flat: bool) -> None:
        super().__init__(draws, files)
        self.is_flat = is_flat
        self.settings |= {"format": "debezium", "loaded_at": f"{LOADED_AT:%Y-%m-%d}"}
        order = draws.pick("sequence", "source", "source", "offset", "seq")
        self.has_seq = order == "seq"
        self.by_place = order == "offset"
        self.settings |= {"sequence": "offset"} if self.by_place else {}
        sinks = ("confluent", "aiven", *(() if self.by_place else ("plain", "firehose")))
        self.sink = draws.pick("sink", *sinks)
        self.connector = draws.pick("connector", "postgresql", "mysql", "oracle", "sqlserver")
        self.prefix = draws.pick("field_prefix", "__", "_dbz_")
        self.settings |= {"field_prefix": self.prefix} if self.prefix != "__" else {}
        self.of_source = draws.pick("position", "", "source_")
        self.has_op = not is_flat or draws.pick("op", True, True, False)
        self.moves_rows = not is_flat and draws.pick("moves", True, False)
        self.has_before = draws.pick("before", True, False)
        self.units = draws.pick("ts", ("ts_ms",), ("ts_ms", "ts_us", "ts_ns"))
        self.time_of = draws.pick("time", "source", "source", "envelope")
        truths = [("true", "false"), *[(True, False)] * isinstance(files, Json)]
        self.true, self.false = draws.pick("truths", *truths)
        self._draw_types(not isinstance(files, Json) and draws.pick("native", True, False))

    def _draw_types(self, is_native: bool) -> None:
        """How values are written: as numbers and texts of a meaning, or in the file's own types."""
        self.types: dict[str, str] = {}
        self.counted = {}
        for name, of in self.columns.items():
            self.types[name] = of
            if of.startswith("decimal"):
                self.types[name] += "@org.apache.kafka.connect.data.Decimal"
            elif of == "boolean" and self.connector == "mysql":
                self.types[name] = "int"
            elif of == "date":
                self.types[name] = "int@io.debezium.time.Date"
                self.counted[name] = "days"
            elif of.startswith("timestamp"):
                zoned = ["string@io.debezium.time.ZonedTimestamp"] * (of == "timestamp")
                counts = {
                    "bigint@io.debezium.time.Timestamp": "milliseconds",
                    "bigint@io.debezium.time.MicroTimestamp": "microseconds",
                }
                self.types[name] = self.draws.pick(name, *counts, *zoned)
                self.counted[name] = counts.get(self.types[name], "")
            if is_native and name in self.counted:
                meaning = "Date" if of == "date" else "Timestamp"
                self.types[name] = f"{of}@org.apache.kafka.connect.data.{meaning}"
                del self.counted[name]
        told = {name: unit for name, unit in self.counted.items() if unit.endswith("seconds")}
        if told and not self.files.says_types:
            units = list(told.values())
            self.settings["timestamp_unit"] = units[0] if len({*units}) == 1 else told

    def row(self, change: Change) -> Record:
        row = super().row(change)
        for name, of in self.types.items():
            if row[name] is None:
                continue
            if self.counted.get(name):
                row[name] = _count(row[name], self.counted[name])
            elif name in self.counted:
                text = row[name].isoformat(timespec=self.draws.choice(("milliseconds", "auto")))
                row[name] = text.replace("+00:00", "Z")
            elif of == "int":
                row[name] = int(row[name])
        return self.files.spelled(row)

    def fields(self, is_load: bool) -> Columns:
        row: Columns = self.files.spelled(self.types)
        own = self._added("c", START, FIRST) if self.is_flat else self._source("c", START, FIRST)
        names = {int: "bigint", bool: "boolean", str: "string"}
        types: Columns = {name: names[type(value)] for name, value in own.items()}
        if self.is_flat:
            return row | types
        return {"before": row, "after": row, "source": types, "op": "string", "ts_ms": "bigint"}

    def records(self, table: str, change: Change) -> Iterator[Record | None]:
        """The change, and in JSON now and then something that is none."""
        op = {"I": "c", "U": "u", "D": "d", "R": "r"}[change.op]
        at, seq = change.at, change.seq
        if op == "r" and self.has_op and not self.by_place:
            # Rule 18: a snapshot is older than every change, whatever it says.
            at, seq = START + timedelta(days=1), FIRST + 50
        if self.is_flat:
            yield self.row(change) | self._added(op, at, seq)
        else:
            yield self._envelope(change, op, at, seq)
        if isinstance(self.files, Json):
            if op == "d" and self.draws.random() < 0.5:
                yield None
            if self.draws.random() < 0.1:
                yield self.draws.choice(_NOISE)

    def _envelope(self, change: Change, op: str, at: datetime, seq: int) -> Record:
        row = self.row(change)
        before = row if op == "d" else None
        if op == "u" and change.old and (self.has_before or is_moved(change.old, change.row)):
            before = self.row(replace(change, row=change.old))
        return {
            "before": before,
            "after": None if op == "d" else row,
            "source": self._source(op, at, seq),
            # Old connectors called the rows of a snapshot so, too.
            "op": "c" if op == "r" and self.draws.random() < 0.2 else op,
            "ts_ms": self._processed(at),
        }

    def _processed(self, at: datetime) -> int:
        """When the connector had the change; it only counts where the source tells no time."""
        return _count(at, "milliseconds") + (86_400_000 if self.time_of == "source" else 0)

    def _source(self, op: str, at: datetime, seq: int) -> Record:
        micros = _count(at, "microseconds") if self.time_of == "source" else 0
        times = {"ts_ms": micros // 1000, "ts_us": micros, "ts_ns": micros * 1000}
        words = (self.true, "first", "last") if self.true == "true" else (self.true,)
        return {
            "connector": self.connector,
            **{unit: times[unit] for unit in self.units},
            "snapshot": self.draws.choice(words) if op == "r" else self.false,
            "table": "t",
            **self._position(seq),
        }

    def _added(self, op: str, at: datetime, seq: int) -> Record:
        """The fields that flattening adds."""
        added: Record = {"deleted": self.true if op == "d" else self.false}
        added |= {"op": op} if self.has_op else {}
        added |= {"source_ts_ms": _count(at, "milliseconds")} if self.time_of == "source" else {}
        added["ts_ms"] = self._processed(at)
        added |= {f"{self.of_source}{name}": value for name, value in self._position(seq).items()}
        return {f"{self.prefix}{name}": value for name, value in added.items()}

    def _position(self, seq: int) -> Record:
        """Grows with `seq`, though not as text."""
        n = seq - FIRST + 1000
        match self.connector:
            case "postgresql":
                return {"lsn": seq, "txId": n}
            case "mysql":
                file = f"mysql-bin.{999_980 + n // 51:06d}"
                return {"file": file, "pos": n % 51 // 3 * 37 + 4, "row": n % 3}
            case "oracle":
                return {"commit_scn": str(n // 10), "scn": str(n // 2), "rs_id": "1", "ssn": n % 2}
        lsn = f"00000027:{n // 10:08x}"
        change_lsn = f"{lsn}:{n % 10 // 2:04x}"
        return {"commit_lsn": f"{lsn}:9999", "change_lsn": change_lsn, "event_serial_no": n % 2 + 1}

    def path(self, table: str, file: File) -> str:
        """As the sink calls it; a copy has another folder and the same offset."""
        number = file.number if file.is_load else LOADS + file.number
        folder = f"{table.replace('.', '/')}/{'again/' * file.is_copy}"
        topic, offset = f"server.{table}", 5000 * number
        match self.sink:
            case "confluent":
                return f"{folder}{topic}/{topic}+0+{offset:010d}{self.files.suffix}"
            case "aiven":
                return f"{folder}{topic}-0-{offset}{self.files.packed_suffix}"
            case "firehose":
                name = f"stream-1-2024-01-02-03-04-05-{number:032x}"
                return f"{folder}2024/01/02/03/{name}{self.files.packed_suffix}"
        return f"{folder}part-{number}{self.files.suffix}"


_NOISE: tuple[Record, ...] = (
    {},
    {"ts_ms": 1704067200000},
    {"status": "BEGIN", "id": "571:53195829", "event_count": None, "data_collections": None},
    {"op": "m", "ts_ms": 1, "source": {"lsn": 1}, "message": {"prefix": "p", "content": "e30="}},
    {"source": {"file": "f"}, "databaseName": "shop", "ddl": "alter table t", "tableChanges": []},
)


class Extract(Feed):
    """Extracts of changes alone; a column says what happened, and the load is inserts."""

    def __init__(self, draws: Draws, files: Files) -> None:
        super().__init__(draws, files)
        self.settings |= {"format": "extract", "status_column": "status"}
        self.settings |= {"header": "all"} if isinstance(files, Csv) else {}
        self.has_times = draws.pick("timestamp_column", True, True, False)
        self.settings |= {"timestamp_column": "ts"} if self.has_times else {}
        self.words = draws.pick("operations", {}, {"I": "new", "U": "changed", "D": "gone"})
        if self.words:
            meant = {word: op for op, word in self.words.items()}
            self.settings["operations"] = meant | {"checked": "skip"}
        self.is_nested = not isinstance(files, Csv) and draws.pick("nested", True, False)

    def fields(self, is_load: bool) -> Columns:
        return self._shaped({"status": "string", "ts": "timestamp", **self.columns})

    def records(self, table: str, change: Change) -> Iterator[Record]:
        """One record; sometimes one before it that says nothing."""
        op = "I" if change.op == "R" else change.op
        record = {"status": self.words.get(op, op), "ts": change.at, **self.row(change)}
        if self.words and self.draws.random() < 0.1:
            yield self._shaped(record | {"status": "checked", "info_name": "not this"})
        yield self._shaped(record)

    def _shaped(self, fields: Record) -> Record:
        if not self.has_times:
            del fields["ts"]
        if self.is_nested:
            inner = {name: fields.pop(f"info_{name}") for name in ("name", "note")}
            fields["info"] = self.files.spelled(inner)
        return self.files.spelled(fields)

    def path(self, table: str, file: File) -> str:
        name = f"{'load' if file.is_load else 'delta'}_{file.number}{'b' * file.is_copy}"
        return f"{table.replace('.', '/')}/{name}{self.files.suffix}"


# --- tables -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table, what happens to it, and the feed that tells it."""

    name: str
    changes: Changes
    feed: Feed

    def arrivals(self) -> Iterator[Arrival]:
        return self.feed.arrivals(self.name, self.changes)


FEEDS: dict[str, Callable[[Draws], Feed]] = {
    "dms_csv": lambda d: Dms(d, Csv(d)),
    "dms_parquet": lambda d: Dms(d, Parquet(d)),
    "txn": lambda d: Transactions(d, Csv(d)),
    "dbz_json": lambda d: Debezium(d, Json(d, connect=True), is_flat=False),
    "dbz_flat": lambda d: Debezium(d, Json(d, connect=True), is_flat=True),
    "dbz_avro": lambda d: Debezium(d, Avro(d, connect=True), is_flat=d.pick("flat", True, False)),
    "dbz_parquet": lambda d: Debezium(d, Parquet(d), is_flat=d.pick("flat", True, False)),
    "ext_csv": lambda d: Extract(d, Csv(d)),
    "ext_json": lambda d: Extract(d, Json(d, connect=False)),
    "ext_parquet": lambda d: Extract(d, Parquet(d)),
    "ext_avro": lambda d: Extract(d, Avro(d, connect=False)),
}


def tables(source: str, seed: int, count: int) -> list[Table]:
    """A table for each format: the same `count` transactions in each, but one.

    That one has its changes in the same files as another, and must not take those.
    """
    changes, others = (drawn_changes(f"{seed} {whose}", count) for whose in ("all", "one"))
    found = []
    for name, feed in FEEDS.items():
        found.append(Table(f"{source}.{name}", changes, feed(Draws(f"{seed} {name}"))))
        if name == "txn":
            found.append(Table(f"{source}.{name}_other", others, found[-1].feed))
    return found
