"""Direct landing: files of which every record is plainly good land without Spark.

Arrow reads and checks the records, and delta-rs appends them to the log: a fraction of the work.
Whatever needs a decision (a bad record, a new column, a text that Spark alone can judge, a reload)
is not plain. Then nothing is committed, and the whole load goes through Spark, which gives plain
loads the same rows (tests/functional/test_direct.py).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark import readers
from tidemark.feeds import Feed
from tidemark.ingest import (
    books,
    cuts,
    erased,
    events,
    full_loads,
    log,
    positions,
    problems,
    producers,
)
from tidemark.ingest.files import LandedFile
from tidemark.ingest.landed import Outcome
from tidemark.ingest.load import Load
from tidemark.reasons import Reason, Why
from tidemark.storage import micros

# Texts that `cast_text` (macros/staging/cast_text.sql) certainly reads as their type, if Arrow can
# read them, too: it knows the calendar, and how large a number may be.
_WHOLE = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
}
_FLOATING = {"float": pa.float32(), "double": pa.float64()}
_BOOLEAN = "true|false|t|f|1|0"
_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = rf"{_DAY}([T ]\d{{2}}:\d{{2}}:\d{{2}}(\.\d{{1,6}})?(Z|[+]00:00)?)?"
_BASE64 = r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_DECIMAL = re.compile(r"decimal\((\d+), *(\d+)\)")
_MICROS = pa.timestamp("us", "UTC")
# Keys that fit into memory, to count them or to find copies.
FEW = 3_000_000
# Rows that fit with all their columns.
_FEWER = 100_000
# A little less than the hour of `positions`: Delta's statistics of times have milliseconds.
_HOUR = positions.HOUR_IN_MICROS - 1_000


class NotPlainError(Exception):
    """Spark must look: at the load, or at the changes in a log."""


def land(load: Load) -> Outcome | None:
    """Land all files of the plan, or return None: nothing is done then, and Spark must land them.

    Raises what delta-rs raises if the log cannot be written.
    """
    if not _may_be_plain(load):
        return None
    target = books.of(load.spark).log_to_append(load.feed)
    if target is None:
        return None
    found = _Found(load, target, pa.schema(target.schema().to_arrow()))
    try:
        rows = found.rows()
        first = next(rows, None)
        if first is not None:
            reader = pa.RecordBatchReader.from_batches(found.schema, chain([first], rows))
            books.append_load(target, load.feed, load.plan.load_id, reader)
    except Exception:
        # delta-rs does not pass the types of errors on.
        if found.is_not_plain:
            return None
        raise
    outcome = Outcome()
    outcome.count(found.counts.values())
    if outcome.has_rows:
        log.require_rows(load, outcome.entering)
    outcome.copies = found.copies(outcome)
    outcome.notes += found.remarks
    return outcome


def _may_be_plain(load: Load) -> bool:
    feed, plan = load.feed, load.plan
    decides = (feed.delete_when, feed.truncate_when, feed.checks, feed.lateness)
    is_extract_of_many = feed.is_full_extract and (
        feed.extract_is != "file" or len(plan.files) > 1 or len(feed.key) > 1 or plan.confirmed
    )
    return (
        not any((*decides, feed.changed_columns, feed.format == "debezium" and feed.loaded_at))
        and not feed.epochs
        and not (load.cut and cuts.may_go_back(feed))
        and not is_extract_of_many
        and not plan.earlier_loads
        and not erased.concerns(load)
        and all(load.root.place(file.path) for file in plan.files)
    )


@dataclass
class _Found:
    """The rows of a load while they stream into the log, and what was counted on the way.

    Each list has an entry per batch of rows: for the questions that only all rows answer.
    """

    load: Load
    log: Any
    schema: pa.Schema
    counts: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_not_plain: bool = False
    remarks: list[Reason] = field(default_factory=list)
    _known_extract: str = ""
    _known_keys: pa.ChunkedArray | None = None
    _known_files: pa.Table = field(default_factory=lambda: pa.table({}))
    _names: list[tuple[datetime, str, str]] = field(default_factory=list)
    _identities: list[pa.Table] = field(default_factory=list)
    _positions: list[pa.Table] = field(default_factory=list)
    _count_of_rows: int = 0

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows for the log, in the order of the files. Raises NotPlainError at any time."""
        feed, now = self.load.feed, datetime.now(UTC)
        try:
            # delta-rs cannot read a table while it writes one.
            self._read_log()
            for file in self.load.plan.files:
                place = self.load.root.place(file.path)
                assert place
                version = (file.size, micros(file.modified))
                records = readers.local_records(file.path, place, feed, file.kind, version=version)
                for batch in records:
                    if batch.num_rows:
                        yield self._rows_of(batch, file, now)
                if feed.is_full_extract:
                    yield self._truncate(file, now)
            if feed.is_full_extract:
                self._require_harmless_extract()
            elif feed.is_placed:
                self._require_rising_positions()
            elif feed.format == "dms":
                require(not producers.refused(self._names, ()))
        except (NotPlainError, pa.ArrowException):
            self.is_not_plain = True
            raise

    def _read_log(self) -> None:
        """Read what the log knows about such a load."""
        feed, files = self.load.feed, self.load.plan.files
        if feed.is_full_extract:
            self._known_extract, self._known_keys = self._keys_before(files[0])
        elif feed.is_placed:
            self._known_files = pa.table(self.log.get_add_actions(flatten=True))
        elif feed.format == "dms" and any(file.kind == "load" for file in files):
            # After an initial load, load files may be a reload.
            require(not self.log.get_add_actions().num_rows)

    def _keys_before(self, file: LandedFile) -> tuple[str, pa.ChunkedArray | None]:
        """The extract before this one, and its keys. Raises NotPlainError for a later one."""
        truncates = self._logged(["_file_at", "_file"], "_is_delete = true and _op = 'T'")
        known = sorted((row["_file_at"], row["_file"]) for row in truncates.to_pylist())
        if not known:
            return "", None
        at, path = known[-1]
        require((at, path) < (file.time, file.path))
        (key,) = self.load.feed.key
        (in_log,) = (name for name in self.schema.names if name.lower() == key.lower())
        rows = self._logged([in_log, "_file"], f"_op = 'R' and _file_at = '{at.isoformat()}'")
        return path, rows.filter(pc.field("_file") == path).column(in_log)

    def _rows_of(self, records: pa.RecordBatch, file: LandedFile, now: datetime) -> pa.RecordBatch:
        feed, rows = self.load.feed, records.num_rows
        for name in ("_reason", "_skipped", "_others"):
            require(records.column(name).null_count == rows)
        for name in (*feed.key, *(feed.sequence_columns if file.kind == "changes" else ())):
            require(not records.column(name).null_count)
        for column in feed.columns:
            require_type(records.column(column.name), column.type)
        is_initial = pa.repeat(feed.format == "dms" and file.kind == "load", rows)
        if feed.format == "debezium":
            is_initial = pc.fill_null(records.column("_is_snapshot"), False)
        op = _operations(records.column("_source_op"), feed, file.kind)
        told_at = _told_at(records, feed)
        # The time of a file of Debezium is its place in Kafka.
        of_file = file.modified if feed.format == "debezium" else file.time
        at = pc.fill_null(told_at, pa.scalar(of_file, _MICROS))
        if self.load.cut and file.kind == "changes" and not feed.is_full_extract:
            require(pc.min(at).as_py() >= self.load.cut.before)
        if feed.loaded_at:
            at = pc.if_else(is_initial, times(pa.array([feed.loaded_at]))[0], at)
        self._count(file, op, at, is_initial)
        self._remember(records, file, op, told_at, is_initial)
        own = {"_op": op, "_is_delete": pc.equal(op, "D")}
        own |= {"_is_initial": is_initial, "_changed_at": at}
        there = {name: records.column(name) for name in records.schema.names}
        return self._batch(there | own, rows, file, now)

    def _batch(
        self, there: Mapping[str, Any], rows: int, file: LandedFile, now: datetime
    ) -> pa.RecordBatch:
        of_load = {
            "_load_id": pa.scalar(self.load.plan.load_id, pa.int64()),
            "_file_at": pa.scalar(file.time, _MICROS),
            "_landed_at": pa.scalar(now, _MICROS),
        }
        same = {name: pa.repeat(value, rows) for name, value in of_load.items()}
        # The log spells a column as it was when it was created.
        known = {name.lower(): values for name, values in {**there, **same}.items()}
        arrays = [
            known[each.name.lower()].cast(each.type)
            if each.name.lower() in known
            else pa.nulls(rows, each.type)
            for each in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _truncate(self, file: LandedFile, now: datetime) -> pa.RecordBatch:
        """What an extract begins with: it deletes the keys that the extract lacks."""
        own = {"_op": "T", "_is_delete": True, "_is_initial": False, "_position": 0}
        own |= {"_file": file.path, "_changed_at": file.time}
        self.counts[file.path]["entering"] += 1
        return self._batch({name: pa.array([value]) for name, value in own.items()}, 1, file, now)

    def _count(self, file: LandedFile, op: pa.Array, at: pa.Array, is_initial: pa.Array) -> None:
        rows = len(op)
        kinds = {row["values"]: row["counts"] for row in pc.value_counts(op).to_pylist()}
        newest_known, late = self.load.newest_known, 0
        if newest_known and not self.load.feed.is_full_extract:
            is_late = pc.less(at, pa.scalar(newest_known, _MICROS))
            late = pc.sum(pc.and_not(is_late, is_initial)).as_py()
        bounds = pc.min_max(at.cast(pa.int64())).as_py()
        known = self.counts.setdefault(
            file.path,
            {"_file": file.path, "others": (), "unreadable": None, "rejected": 0, "skipped": 0}
            | {"oldest": bounds["min"], "newest": bounds["max"]},
        )
        more = {
            "entering": rows,
            "rows": rows,
            "inserted": kinds.get("R", 0) + kinds.get("I", 0),
            "updated": kinds.get("U", 0),
            "deleted": kinds.get("D", 0),
            "late": late,
        }
        known |= {name: known.get(name, 0) + count for name, count in more.items()}
        known["oldest"] = min(known["oldest"], bounds["min"])
        known["newest"] = max(known["newest"], bounds["max"])

    def _remember(
        self,
        records: pa.RecordBatch,
        file: LandedFile,
        op: pa.Array,
        told_at: pa.Array,
        is_initial: pa.Array,
    ) -> None:
        feed = self.load.feed
        self._count_of_rows += records.num_rows
        names = [*dict.fromkeys((*feed.key, *feed.sequence_columns))]
        identity = {f"of {name}": records.column(name) for name in names}
        if feed.is_placed:
            identity["position"] = records.column("_sequence")
        if feed.is_full_extract or (feed.has_copies and self._count_of_rows <= FEW):
            self._identities.append(pa.table({**identity, "op": op}))
        if feed.is_placed:
            of_change = pa.table({"at": told_at, "position": records.column("_sequence")})
            self._positions.append(of_change.filter(pc.invert(is_initial)).drop_null())
        elif file.kind == "changes":
            told = records.column("_file_columns").drop_null().to_pylist()
            self._names += [(file.time, file.path, columns) for columns in told]

    def copies(self, landed: Outcome) -> int:
        """The number of changes that are copies; see `log.copies`."""
        oldest, newest = landed.oldest_change, landed.newest_change
        newest_known = self.load.newest_known
        if not (oldest and newest and self.load.feed.has_copies):
            return 0
        is_after_all = not newest_known or oldest > newest_known
        if is_after_all and self._count_of_rows <= FEW and not _repeats(self._identities):
            return 0
        try:
            return self._copies_in_memory(() if is_after_all else (oldest, newest))
        except NotPlainError:
            new = self.load.log.where(f"_load_id = {self.load.plan.load_id}")
            return log.copies(self.load, new, oldest)

    def _copies_in_memory(self, span: tuple[datetime, datetime] | tuple[()]) -> int:
        """`log.copies` without Spark. Earlier loads may have copies only in a `span` of time.

        With Spark, a batch waits for its start and a query of several seconds. Raises NotPlainError
        if too many rows would be read.
        """
        require(self._count_of_rows <= _FEWER)
        self.log.update_incremental()
        if span:
            files = pa.table(self.log.get_add_actions(flatten=True))
            require(_rows_between(files, *span) <= _FEWER)
        wanted = {"_op", "_sequence", *(name.lower() for name in self.load.feed.column_names)}
        columns = [name for name in self.schema.names if name.lower() in wanted]
        new = self._logged(columns, f"_load_id = {self.load.plan.load_id}")
        contents = _distinct(new)
        copies = new.num_rows - contents.num_rows
        if span:
            first, last = (at.isoformat() for at in span)
            between = f"_changed_at between '{first}' and '{last}'"
            settled = f"_load_id <= {self.load.plan.settled}"
            known = _distinct(self._logged(columns, f"{settled} and {between}"))
            both = pa.concat_tables([contents, known])
            copies += both.num_rows - _distinct(both).num_rows
        return int(copies)

    def _require_harmless_extract(self) -> None:
        """Raise NotPlainError if `full_loads.refused_extracts` has to look at the extract."""
        feed = self.load.feed
        (name,) = feed.key
        of_type = {column.name: column.type for column in feed.columns}[name]
        require(bool(self._identities) and not _repeats(self._identities))
        keys = pa.concat_tables(self._identities).column(f"of {name}").combine_chunks()
        require_one_spelling(keys, of_type)
        before = self._known_keys
        if before is not None:
            gone = pc.sum(pc.invert(pc.is_in(before, keys))).as_py() or 0
            require(gone <= feed.max_deleted_share * len(before))
            if gone:
                extract = self.load.plan.files[0].path
                shrunken = full_loads.Shrunken(extract, self._known_extract, gone, len(before))
                self.remarks.append(shrunken.reason(Why.DELETES_KEYS))

    def _require_rising_positions(self) -> None:
        """Raise NotPlainError if `positions.refused` has to look at the load."""
        new = pa.concat_tables(self._positions).sort_by("position") if self._positions else None
        if not new:
            return
        at = new.column("at").cast(pa.int64()).combine_chunks()
        require(pc.max(pc.subtract(pc.cumulative_max(at), at)).as_py() <= _HOUR)
        files = self._known_files
        if not files.num_rows:
            return
        _require_known(files, "num_records", "null_count._sequence")
        placed = files.filter(pc.field("null_count._sequence") < pc.field("num_records"))
        if placed.num_rows:
            _require_known(placed, "max._sequence", "max._changed_at")
            require(max(placed["max._sequence"].to_pylist()) < new["position"][0].as_py())
            newest = max(placed["max._changed_at"].to_pylist())
            require(micros(newest) < pc.min(at).as_py() + _HOUR)

    def _logged(self, columns: list[str], where: str) -> pa.Table:
        return pa.concat_tables(logged(self.log, columns, where))


def logged(log: Any, columns: Sequence[str], where: str | None = None) -> Iterator[pa.Table]:
    """Rows of a log, in parts, with the log's types: delta-rs has others for texts."""
    try:
        types = pa.schema(log.schema().to_arrow())
        wanted = pa.schema([types.field(name) for name in columns])
        yield wanted.empty_table()
        for rows in pa.RecordBatchReader.from_stream(log.scan(columns=columns, predicate=where)):
            yield pa.Table.from_batches([rows]).cast(wanted)
    except Exception as error:  # Spark reads the same, and reports why it cannot
        raise NotPlainError from error


def _require_known(files: pa.Table, *names: str) -> None:
    for name in names:
        require(name in files.column_names and not files.column(name).null_count)


def _rows_between(files: pa.Table, oldest: datetime, newest: datetime) -> int:
    """How many rows the files of a log have in which a change may be from this time."""
    _require_known(files, "num_records", "min._changed_at", "max._changed_at")
    # Statistics have milliseconds.
    first = pa.scalar(oldest - timedelta(milliseconds=1), _MICROS)
    ends_before = pc.less(files["max._changed_at"], first)
    begins_after = pc.greater(files["min._changed_at"], pa.scalar(newest, _MICROS))
    rows = files.filter(pc.invert(pc.or_(ends_before, begins_after)))["num_records"]
    return int(pc.sum(rows).as_py() or 0)


def _repeats(batches: list[pa.Table]) -> bool:
    found = pa.concat_tables(batches)
    return bool(_distinct(found).num_rows < found.num_rows)


def _distinct(rows: pa.Table) -> pa.Table:
    return rows.group_by(rows.column_names).aggregate([])


def require(is_plain: bool) -> None:
    """Raise NotPlainError unless this holds."""
    if not is_plain:
        raise NotPlainError


def _operations(told: pa.Array, feed: Feed, kind: str) -> pa.Array:
    """The operation of each record, as in `events`."""
    meaning: Mapping[str, str] = dict(feed.operations)
    allowed = {*problems.allowed_operations(feed, kind)} - {"T", "skip"}
    needs_one = feed.needs_op(kind) or feed.format == "debezium"
    for text in pc.unique(told).to_pylist():
        meant = meaning.get(text or "", text)
        require(meant in allowed or (meant is None and not needs_one))
    if feed.is_full_extract or (feed.format == "dms" and kind == "load"):
        return pa.array(["R"] * len(told), pa.string())
    op = told
    for text, meant in meaning.items():
        op = pc.if_else(pc.equal(pc.fill_null(told, ""), text), meant, op)
    return pc.fill_null(op, "U")


def _told_at(records: pa.RecordBatch, feed: Feed) -> pa.Array:
    """The time that each record tells."""
    is_column = feed.timestamp_column in feed.column_names
    told = records.column(feed.timestamp_column if is_column else "_source_time")
    require(not (feed.timestamp_column and told.null_count))
    at = times(told)
    if feed.ahead:
        newest = pc.max(at).as_py()
        require(newest is None or newest <= events.latest(feed.ahead))
    return at


def require_type(texts: pa.Array, data_type: str) -> None:
    """Raise NotPlainError unless each text certainly fits the type."""
    if data_type == "string" or texts.null_count == len(texts):
        return
    decimal = _DECIMAL.fullmatch(data_type)
    if data_type in _WHOLE:
        _require_all(texts, r"-?\d{1,19}")
        texts.cast(_WHOLE[data_type])
    elif decimal and int(decimal[1]) > int(decimal[2]):
        whole, scale = int(decimal[1]) - int(decimal[2]), int(decimal[2])
        _require_all(texts, rf"[+-]?\d{{1,{whole}}}(\.\d{{0,{scale}}}0*)?")
    elif data_type in _FLOATING:
        _require_all(texts, r"[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?")
        # Arrow reads no plus sign.
        numbers = pc.replace_substring_regex(texts, r"^\+", "").cast(_FLOATING[data_type])
        require(pc.all(pc.is_finite(numbers)).as_py() is not False)
    elif data_type == "boolean":
        _require_all(texts, _BOOLEAN)
    elif data_type == "date":
        _require_all(texts, rf"{_DAY}([T ]00:00:00(\.0+)?)?")
        pc.utf8_slice_codeunits(texts, 0, 10).cast(pa.date32())
    elif data_type in ("timestamp", "timestamp_ntz"):
        times(texts)
    elif data_type == "binary":
        _require_all(texts, _BASE64)
    else:
        raise NotPlainError


def require_one_spelling(texts: pa.Array, data_type: str) -> None:
    """Raise NotPlainError unless different texts are different values of the type."""
    if data_type != "string":
        require(data_type in _WHOLE)
        _require_all(texts, r"0|-?[1-9]\d*")


def in_order(texts: pa.Array, data_type: str) -> pa.Array:
    """Texts as values in the order of the type. Raises NotPlainError, or what Arrow raises."""
    require_type(texts, data_type)
    if data_type == "timestamp":
        return times(texts)
    if data_type == "date":
        return pc.utf8_slice_codeunits(texts, 0, 10).cast(pa.date32())
    if data_type in _WHOLE:
        return texts.cast(_WHOLE[data_type])
    require(data_type == "string")
    return texts


def times(texts: pa.Array) -> pa.Array:
    """Texts as times in UTC. Raises ArrowInvalid for a day or an hour that does not exist."""
    _require_all(texts, _TIME)
    plain = pc.replace_substring_regex(texts, r"(Z|\+00:00)$", "")
    return pc.assume_timezone(plain.cast(pa.timestamp("us")), "UTC")


def _require_all(texts: pa.Array, pattern: str) -> None:
    require(bool(pc.all(pc.match_substring_regex(texts, f"^({pattern})$")).as_py() is not False))
