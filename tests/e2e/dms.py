"""A capture process of tests: it writes what an AWS DMS task writes to S3, from PostgreSQL.

AWS DMS itself cannot run here. What it writes is known from its documentation and from real files.
It does the following, and so does this:

- It keeps the log from a time on, then reads each table (LOAD00000001.csv; a hexadecimal counter)
  while clients change it. The time of a row of a load is when it was transferred. Changes of that
  time are cached and written behind the load, also those that the load already has.
- It writes changes in the order of commits, several of a key too, into files named after the time
  when they were closed. The time of a change is that of its commit.
- A delete has the key alone, unless the table has `replica identity full`.
- An update lacks a large value that it did not change: the column is NULL. With `replica identity
  full` the old row has the value.
- An update of the key is one update with the new key. With before images (pk-only) it has the old
  one in BI_ columns, too. AWS documents that without them such updates of PostgreSQL are left out.
- It does not capture truncates of PostgreSQL.
- After a restart it goes on from its last checkpoint, so it repeats changes in new files.
- Types: `boolean` is a text, `numeric` without digits has six decimals, `money` four, `time` has
  milliseconds; in CSV, floating-point numbers are in scientific notation and bytes are hexadecimal.
"""

import io
import re
import struct
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.e2e import pgoutput, truth
from tests.e2e.pgoutput import UNCHANGED, Change, Column, Transaction
from tests.e2e.postgres import Postgres

SCHEMA = "ticketing"
TIME = "dms_ts"
SEQUENCE = "cdc_seq"
MARK = "mark"


@dataclass(frozen=True)
class Task:
    """A task and its S3 endpoint. The defaults are those that our documentation recommends."""

    name: str
    tables: Sequence[str]
    # The name that a rule gives the schema.
    schema: str = SCHEMA
    parquet: bool = True
    # AddColumnName
    has_names: bool = True
    # IncludeOpForFullLoad
    op_in_load: bool = True
    # TimestampColumnName
    has_time: bool = True
    # UseTaskStartTimeForFullLoadTimestamp
    load_has_start: bool = False
    # A rule add-column with $AR_H_CHANGE_SEQ
    has_sequence: bool = True
    # A rule add-before-image-columns, pk-only
    has_images: bool = True
    # CsvNullValue
    null: str = "NULL"
    # DatePartitionEnabled
    has_dates: bool = False
    # PreserveTransactions, with this CdcPath: the changes of all tables are in common CSV files.
    transactions_in: str = ""
    # Rules remove-column, as table.column.
    removed: Sequence[str] = ()
    # Whether changes that a restart repeats have the sequence that they had.
    repeats_sequence: bool = True
    # CdcMaxBatchInterval
    interval: float = 0.7
    # Instead of MaxFileSize.
    rows_in_load: int = 25


@dataclass(frozen=True)
class _State:
    """What a task knows after a restart."""

    confirmed: int = 0
    sequence: int = 0
    prefix: str = ""


@dataclass(frozen=True)
class _Row:
    op: str
    time: datetime
    sequence: str
    values: Mapping[str, str | None]
    # The key before an update or a delete.
    image: Mapping[str, str | None]


class CrashError(Exception):
    """The capture process ended in the middle of its work."""


@dataclass
class Capture:
    """A running task. It writes to outbox/<task>/<schema>/<table>/."""

    task: Task
    source: Postgres
    outbox: Path
    # The rows of each table that it wrote: L, I, U, D, and updates that change the key.
    written: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    # What else it met that makes replication hard.
    met: Counter[str] = field(default_factory=Counter)
    # How far the clock that names files is ahead.
    clock: timedelta = timedelta()
    # The rows of the table `mark` whose transactions are written.
    _marks: set[int] = field(default_factory=set)
    _state: _State = _State()
    _loaded: dict[str, datetime] = field(default_factory=dict)
    _keys: dict[str, list[str]] = field(default_factory=dict)
    # How far changes are written, and how far they were before the restart.
    _written: int = 0
    _repeats_until: int = 0
    # The state behind what is written, which is not confirmed.
    _counted: _State | None = None
    _last_name: datetime = datetime(2000, 1, 1, tzinfo=UTC)
    _thread: threading.Thread | None = None
    _stops: threading.Event = field(default_factory=threading.Event)
    _must_crash: threading.Event = field(default_factory=threading.Event)
    _error: BaseException | None = None

    # --- a person's commands --------------------------------------------------------------------

    def prepare(self) -> None:
        """Keep the log from now on."""
        place = pgoutput.create_slot(self.source, self._slot, self._slot)
        self._state = replace(self._state, confirmed=place)

    def start(self) -> None:
        """Start the task, or resume it."""
        if not self._state.confirmed:
            self.prepare()
        if self.task.repeats_sequence:
            self._counted = None
        self._repeats_until = self._written
        self._written = self._state.confirmed
        self._stops.clear()
        self._thread = threading.Thread(target=self._run, name=self._slot)
        self._thread.start()

    def stop(self) -> None:
        """End it. What it has not confirmed, it repeats after the next start."""
        self._stops.set()
        if self._thread:
            self._thread.join(60)
        self._thread = None

    def crash(self) -> None:
        """End it behind a file, when the next start will repeat changes.

        That needs changes. So it makes some: the clients may have done their work.
        """
        assert self._thread
        self._must_crash.set()
        end = datetime.now(UTC) + timedelta(seconds=60)
        while self._thread.is_alive() and datetime.now(UTC) < end:
            self.source.sql("call work.change_customer(work.customer(1))")
            self._thread.join(self.task.interval)
        error, self._error, self._thread = self._error, None, None
        assert isinstance(error, CrashError), f"did not crash: {error!r}"

    def wait(self, until: Callable[[], bool], what: str, seconds: float = 60) -> None:
        """Wait for something that it does."""
        end = datetime.now(UTC) + timedelta(seconds=seconds)
        while not until():
            if self._error:
                raise RuntimeError(f"{self._slot} ended") from self._error
            if datetime.now(UTC) > end:
                raise RuntimeError(f"waited {seconds} s for {what}")
            threading.Event().wait(0.05)

    def has_changes(self) -> bool:
        """Whether each table has been loaded and has changed since."""
        done = {table for table, counts in self.written.items() if counts["U"]}
        return done >= set(self.task.tables)

    def has_reached(self, mark: int) -> bool:
        """Whether everything before this row of the table `mark` is written."""
        return mark in self._marks

    def reload(self) -> None:
        """Forget everything, as a task that is started anew: the slot is lost."""
        self.stop()
        self.source.sql(
            f"select pg_drop_replication_slot('{self._slot}'); drop publication {self._slot}"
        )
        self._counted = None
        self._state, self._loaded = replace(self._state, confirmed=0), {}

    # --- the process ----------------------------------------------------------------------------

    @property
    def _slot(self) -> str:
        return f"dms_{self.task.name}"

    def _run(self) -> None:
        try:
            self._keys = self._find_keys()
            started = datetime.now(UTC)
            for table in self.task.tables:
                if table not in self._loaded:
                    self._load(table, started)
                    self._loaded[table] = datetime.now(UTC)
            turn = 0
            while not self._stops.wait(self.task.interval):
                turn += 1
                self._capture(confirms=turn % 4 == 0)
        except BaseException as error:
            self._error = error

    def _find_keys(self) -> dict[str, list[str]]:
        listed = self.source.sql(
            "select relname, string_agg(attname, ',' order by attnum) from pg_index "
            "join pg_class on pg_class.oid = indrelid "
            "join pg_attribute on attrelid = indrelid and attnum = any(indkey) "
            f"where indisprimary and relnamespace = '{SCHEMA}'::regnamespace group by relname"
        )
        pairs = (line.split("|") for line in listed.split("\n"))
        return {table: names.split(",") for table, names in pairs}

    def _load(self, table: str, started: datetime) -> None:
        listed = self.source.sql(
            "select attname, atttypid, atttypmod from pg_attribute where attrelid = "
            f"'{SCHEMA}.{table}'::regclass and attnum > 0 and not attisdropped order by attnum"
        )
        columns = [
            Column(name, int(number), int(modifier))
            for name, number, modifier in (line.split("|") for line in listed.split("\n"))
        ]
        copied = self.source.sql(f"copy {SCHEMA}.{table} to stdout")
        lines = [line for line in copied.split("\n") if line]
        rows = []
        for line in lines:
            values = dict(
                zip((it.name for it in columns), map(_of_copy, line.split("\t")), strict=True)
            )
            rows.append(_Row("I", datetime.now(UTC), "", values, {}))
            # A row takes time, in which clients work.
            threading.Event().wait(0.3 / len(lines))
        if self.task.load_has_start:
            rows = [replace(row, time=started) for row in rows]
        size = self.task.rows_in_load
        for number, at in enumerate(range(0, len(rows), size), start=1):
            self._write(table, f"LOAD{number:08X}", columns, rows[at : at + size], is_load=True)

    def _capture(self, *, confirms: bool) -> None:
        found = pgoutput.peek(self.source, self._slot, self._slot)
        new = [it for it in found if it.end > self._written]
        can_crash = self._must_crash.is_set() and self._written > self._state.confirmed
        state = self._flush(new, crashes=can_crash)
        if found:
            self._written = max(self._written, found[-1].end)
        self._counted = state
        # A crash needs something to repeat: wait for it.
        if confirms and not self._must_crash.is_set() and self._written > self._state.confirmed:
            pgoutput.confirm(self.source, self._slot, self._written)
            self._state = replace(state, confirmed=self._written)

    def _flush(self, transactions: Iterable[Transaction], *, crashes: bool) -> _State:
        """Write these transactions; gives the state behind them."""
        state = self._counted or self._state
        files: dict[str, list[tuple[tuple[Column, ...], _Row]]] = defaultdict(list)
        together: list[tuple[str, tuple[Column, ...], _Row]] = []
        marks = set()
        for transaction in transactions:
            stamp = transaction.committed.strftime("%Y%m%d%H%M%S%f")[:16]
            for change in transaction.changes:
                if change.table == MARK:
                    marks.add(int(str((change.new or {})["mark_id"])))
                if change.table not in self.task.tables:
                    continue
                if change.op == "T":
                    self.met["truncate"] += 1
                    continue
                state = replace(state, sequence=state.sequence + 1, prefix=max(state.prefix, stamp))
                row = self._row(change, transaction, f"{state.prefix}{state.sequence:019d}")
                if self.task.transactions_in:
                    together.append((change.table, change.columns, row))
                else:
                    files[change.table].append((change.columns, row))
                self.met["repeated"] += transaction.end <= self._repeats_until
        if self.task.transactions_in and together:
            self._write_transactions(together)
            if crashes:
                self._must_crash.clear()
                self._counted = state
                raise CrashError
        for table, rows in files.items():
            # One set of columns in each file.
            part: list[_Row] = []
            for place, (columns, row) in enumerate(rows):
                part.append(row)
                if place + 1 == len(rows) or rows[place + 1][0] != columns:
                    self._write(table, self._name(), columns, part, is_load=False)
                    part = []
            if crashes:
                # The other tables' changes are lost.
                self._must_crash.clear()
                self._counted = state
                raise CrashError
        self._marks |= marks
        return state

    def _row(self, change: Change, transaction: Transaction, sequence: str) -> _Row:
        self.met["cached"] += transaction.committed < self._loaded[change.table]
        keys = self._keys[change.table]
        old, new = change.old, change.new
        if new is None:
            assert old
            image = {name: _text(old[name]) for name in keys}
            return _Row("D", transaction.committed, sequence, _texts(old), image)
        if any(value is UNCHANGED for value in new.values()):
            self.met["unchanged"] += 1
            # An old key alone has NULL for the other columns.
            new = {
                name: (old or {}).get(name) if value is UNCHANGED else value
                for name, value in new.items()
            }
        image = {}
        if change.op == "U":
            image = {name: _text((old or new)[name]) for name in keys}
        return _Row(change.op, transaction.committed, sequence, _texts(new), image)

    def _name(self) -> str:
        """The name of a change file: the time, and no two files have the same."""
        at = datetime.now(UTC)
        at -= timedelta(microseconds=at.microsecond % 1000)
        self._last_name = max(at, self._last_name + timedelta(milliseconds=1))
        return (self._last_name + self.clock).strftime("%Y%m%d-%H%M%S%f")[:-3]

    # --- files ----------------------------------------------------------------------------------

    def _write(
        self,
        table: str,
        name: str,
        columns: Sequence[Column],
        rows: Sequence[_Row],
        *,
        is_load: bool,
    ) -> None:
        task, keys = self.task, self._keys[table]
        kept = [it for it in columns if f"{table}.{it.name}" not in task.removed]
        # Column names, types and values: what DMS adds in front, the row, what rules add behind.
        of_file: list[tuple[str, pa.DataType, list[Any]]] = []
        if task.op_in_load or not is_load:
            of_file.append(("Op", pa.string(), [row.op for row in rows]))
        if task.has_time:
            times = [row.time.strftime("%Y-%m-%d %H:%M:%S.%f") for row in rows]
            of_file.append((TIME, pa.string(), times))
        form = _value if task.parquet else _csv_text
        for column in kept:
            values = [_formed(form, column, row.values.get(column.name)) for row in rows]
            of_file.append((column.name, _arrow_type(column), values))
        if task.has_images:
            for column in (it for it in kept if it.name in keys):
                values = [_formed(form, column, row.image.get(column.name)) for row in rows]
                of_file.append((f"BI_{column.name}", _arrow_type(column), values))
        if task.has_sequence:
            of_file.append((SEQUENCE, pa.string(), [row.sequence for row in rows]))
        folder = self.outbox / task.name / task.schema / table
        if task.has_dates and not is_load:
            folder = folder / name[:4] / name[4:6] / name[6:8]
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f".{name}"
        if task.parquet:
            names = [each[0] for each in of_file]
            arrays = [pa.array(each[2], each[1]) for each in of_file]
            pq.write_table(pa.Table.from_arrays(arrays, names), unfinished)
        else:
            unfinished.write_text(_csv(of_file, task), newline="")
        unfinished.rename(folder / f"{name}.{'parquet' if task.parquet else 'csv'}")
        self._count(table, rows, is_load=is_load)

    def _write_transactions(self, changes: Iterable[tuple[str, tuple[Column, ...], _Row]]) -> None:
        """Write a file CDC_TXN-...: each line has the table, the schema and the table's values.

        It has no names of columns, times or images: AWS does not say where those would be.
        """
        task = self.task
        name = self._name().replace("-", "")
        folder = self.outbox / task.name / task.transactions_in
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f".{name}"
        with unfinished.open("w", newline="") as output:
            for table, columns, row in changes:
                values = [
                    _formed(_csv_text, column, row.values.get(column.name))
                    for column in columns
                    if f"{table}.{column.name}" not in task.removed
                ]
                values += [row.sequence] * task.has_sequence
                fields = [task.null if value is None else _quoted(value) for value in values]
                output.write(",".join([row.op, table, task.schema, *fields]) + "\n")
                self._count(table, [row], is_load=False)
        unfinished.rename(folder / f"CDC_TXN-{name}.csv")

    def _count(self, table: str, rows: Iterable[_Row], *, is_load: bool) -> None:
        counts = self.written[table]
        for row in rows:
            counts["L" if is_load else row.op] += 1
            counts["key"] += any(row.values[it] != old for it, old in row.image.items())


def _csv(of_file: Sequence[tuple[str, pa.DataType, list[Any]]], task: Task) -> str:
    output = io.StringIO()
    if task.has_names:
        output.write(",".join(_quoted(name) for name, _, _ in of_file) + "\n")
    for row in zip(*(values for _, _, values in of_file), strict=True):
        fields = (task.null if value is None else _quoted(value) for value in row)
        output.write(",".join(fields) + "\n")
    return output.getvalue()


def _quoted(text: str) -> str:
    if any(each in text for each in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _text(value: object) -> str | None:
    assert value is None or isinstance(value, str)
    return value


def _texts(row: Mapping[str, object]) -> dict[str, str | None]:
    return {name: _text(value) for name, value in row.items()}


_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _of_copy(text: str) -> str | None:
    """A value of COPY's text format."""
    if text == "\\N":
        return None
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text)


# --- what goes on around it -----------------------------------------------------------------------


def reach(source: Postgres, captures: Sequence[Capture], mark: int) -> None:
    """Wait until everything before now has left the captures."""
    source.sql(f"insert into {SCHEMA}.{MARK} values ({mark})")
    for capture in captures:
        capture.wait(partial(capture.has_reached, mark), f"mark {mark}")


def deliver(capture: Capture, landing: Path) -> None:
    """Move what a capture has written into the landing folder."""
    for file in sorted((capture.outbox / capture.task.name).rglob("[!.]*.*")):
        target = landing / file.relative_to(capture.outbox)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.rename(target)


# --- types ----------------------------------------------------------------------------------------


class _Type(IntEnum):
    """Numbers of types in pg_type."""

    BOOL = 16
    BYTEA = 17
    INT8 = 20
    INT2 = 21
    INT4 = 23
    FLOAT4 = 700
    FLOAT8 = 701
    MONEY = 790
    DATE = 1082
    TIME = 1083
    TIMESTAMP = 1114
    TIMESTAMPTZ = 1184
    NUMERIC = 1700


_ARROW: dict[int, pa.DataType] = {
    _Type.BYTEA: pa.binary(),
    _Type.INT8: pa.int64(),
    _Type.INT2: pa.int16(),
    _Type.INT4: pa.int32(),
    _Type.FLOAT4: pa.float32(),
    _Type.FLOAT8: pa.float64(),
    _Type.MONEY: pa.decimal128(38, 4),
    _Type.DATE: pa.date32(),
    _Type.TIME: pa.time32("ms"),
    _Type.TIMESTAMP: pa.timestamp("us", "UTC"),
    _Type.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
}


def _digits(column: Column) -> tuple[int, int]:
    """Precision and scale of a numeric."""
    if column.modifier < 0:
        return 28, 6
    return (column.modifier - 4) >> 16, (column.modifier - 4) & 0x7FF


def _arrow_type(column: Column) -> pa.DataType:
    if column.type == _Type.NUMERIC:
        return pa.decimal128(*_digits(column))
    return _ARROW.get(column.type, pa.string())


def _formed(form: Callable[[Column, str], Any], column: Column, text: str | None) -> Any:
    return None if text is None else form(column, text)


def _value(column: Column, text: str) -> Any:
    """A value of a Parquet file, by PostgreSQL's text."""
    match column.type:
        case _Type.BOOL:
            return "true" if text == "t" else "false"
        case _Type.BYTEA:
            return bytes.fromhex(text.removeprefix("\\x"))
        case _Type.INT8 | _Type.INT2 | _Type.INT4:
            return int(text)
        case _Type.FLOAT4:
            return struct.unpack("f", struct.pack("f", float(text)))[0]
        case _Type.FLOAT8:
            return float(text)
        case _Type.MONEY:
            return _fixed(re.sub("[$,]", "", text), 4)
        case _Type.NUMERIC:
            return _fixed(text, _digits(column)[1])
        case _Type.DATE:
            return date.fromisoformat(text)
        case _Type.TIME:
            exact = time.fromisoformat(text)
            return exact.replace(microsecond=exact.microsecond // 1000 * 1000)
        case _Type.TIMESTAMP | _Type.TIMESTAMPTZ:
            at = datetime.fromisoformat(text)
            return at if at.tzinfo else at.replace(tzinfo=UTC)
    return text


def _fixed(text: str, scale: int) -> Decimal:
    with localcontext(prec=60):
        return Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)


def _csv_text(column: Column, text: str) -> str:
    """A value of a CSV file, by PostgreSQL's text."""
    value = _value(column, text)
    match value:
        case bytes():
            return value.hex()
        case float():
            return f"{value:+.16e}"
        case Decimal():
            return f"{value:f}"
        case datetime():
            return value.replace(tzinfo=None).isoformat(" ")
        case time():
            return value.isoformat("milliseconds")
    return str(value)


# --- the truth, as far as AWS DMS keeps it --------------------------------------------------------

_FORMS = {"money": "numeric", "numeric": "rounded", "time without time zone": "clock"}
_FORMS |= {"ARRAY": "list", "real": "float4"}


def captured(table: truth.Table, removed: Sequence[str]) -> truth.Table:
    """A table as it can be compared with the lake, without the columns that rules remove."""
    types = {
        name: _FORMS.get(kind, kind)
        for name, kind in table.types.items()
        if f"{table.name}.{name}" not in removed
    }
    return replace(table, types=types)
