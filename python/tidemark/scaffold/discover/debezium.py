"""Infer a table from Debezium events, enveloped or flattened."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidemark.readers import avro_files
from tidemark.readers.debezium import TIMES, UNITS, fields_of, flattened, no_change, position_of
from tidemark.readers.documents import text_of
from tidemark.scaffold import sampling
from tidemark.scaffold.discover.table import NoTableError, Table, find_key, set_columns
from tidemark.scaffold.sampling import Column, Sample

SINK = re.compile(r"(?P<topic>.+)\+\d+\+\d+(\.[A-Za-z.]+)?")
_OTHER_SINK = re.compile(r"(?P<topic>.+)-\d+-\d+(\.[A-Za-z.]+)?")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\dZ")
_EXTENSION = re.compile(r"(\.[A-Za-z.]+)$")
# Fields that Debezium's transform ExtractNewRecordState adds, with a prefix.
_ADDED = (
    *("deleted", "table", "lsn", "ts_ms", "source_ts_ms", "source_ts_us", "source_ts_ns"),
    *("source_lsn", "source_table", "db", "source_db", "file", "source_file", "scn", "source_scn"),
)
_CONNECT_TYPES = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.IsoDate": "date",
    "org.apache.kafka.connect.data.Date": "date",
    **dict.fromkeys(UNITS, "timestamp_ntz"),
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "io.debezium.data.VariableScaleDecimal": "string",
    # Landing writes a time of day as text.
    **dict.fromkeys(TIMES, "string"),
}
_CONNECT_PLAIN = {
    **{"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint"},
    **{"float": "float", "float32": "float", "double": "double", "float64": "double"},
    **{"boolean": "boolean", "bytes": "binary"},
}


@dataclass
class Events:
    """The events in samples of a Debezium feed."""

    rows: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=list)
    types: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    tables: set[str] = field(default_factory=set)
    prefix: str = "__"
    is_flat: bool = False
    is_dms: bool = False
    has_schema: bool = False
    plain: list[Mapping[str, Any]] = field(default_factory=list)
    messages: int = 0

    @property
    def are_many(self) -> bool:
        """Whether most documents are events, not rows of an extract."""
        return self.is_dms or len(self.rows) + self.messages > len(self.plain)

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> "Events":
        """The events in the samples of one table's files."""
        events = cls()
        for sample in samples:
            for document in sample.rows:
                events._add(document)
            if events.rows and sample.type == "avro":
                events._add_types(avro_files.fields_of(sample.schema), _avro_type)
            elif events.rows and sample.type == "parquet":
                events._add_arrow_types(sample)
        return events

    def _add(self, document: Any) -> None:
        if isinstance(document, Mapping) and set(document) == {"schema", "payload"}:
            fields = fields_of(document["schema"])
            document = document["payload"]
            if fields:
                self._add_types(fields, _connect_type)
        if not isinstance(document, Mapping) or not document:
            return
        source = document.get("source")
        if "op" in document and isinstance(source, Mapping):
            row = document.get("after") or document.get("before")
            if isinstance(row, Mapping):
                op = text_of(document["op"]) or ""
                where = (source.get("schema") or source.get("db"), source.get("table"))
                self.tables.add(".".join(str(text_of(part)) for part in where if part))
                self.rows.append((op, row, source))
            else:
                self.messages += 1
            return
        if no_change(document, "__"):
            self.messages += 1
            return
        if isinstance(document.get("metadata"), Mapping) and "record-type" in document["metadata"]:
            self.is_dms = True
        prefix = _prefix_of(document)
        if prefix is None:
            self.plain.append(document)
            return
        self.prefix, self.is_flat = prefix, True
        event = flattened(document, prefix)
        if table := event.source.get("table"):
            self.tables.add(str(text_of(table)))
        self.rows.append((event.op or "", event.row, event.source))

    def _add_types(self, fields: Mapping[str, Any], type_of: Callable[[Any], str]) -> None:
        self.has_schema = True
        for name, of in fields.items():
            kind = type_of(of)
            if kind not in self.types[name]:
                self.types[name].append(kind)

    def _add_arrow_types(self, sample: Sample) -> None:
        image = "" if self.is_flat else "after_"
        for name, column in sample.columns.items():
            if name.startswith(image) and column.type:
                self.types[name.removeprefix(image)].append(column.type)

    @property
    def without_position(self) -> bool:
        """Whether some changes lack their position in the source's log."""
        changes = [source for op, _, source in self.rows if op != "r"]
        if not changes and self.is_flat:
            changes = [source for *_, source in self.rows]
        return any(position_of(source) is None for source in changes)

    def columns(self) -> dict[str, list[Column]]:
        """The columns of the rows. A nested value is a single column."""
        found: dict[str, Column] = {}
        # A delete may contain only its key, with defaults for the rest.
        rows = [row for op, row, _ in self.rows if op != "d"] or [row for _, row, _ in self.rows]
        rows = rows or self.plain
        for row in rows:
            for name in row:
                if not name.startswith(self.prefix):
                    found.setdefault(name, Column([]))
        for name, column in found.items():
            column.values = [_without_zone(row.get(name)) for row in rows]
        columns = {name: [column] for name, column in found.items()}
        for name, types in self.types.items():
            if name in columns:
                columns[name] = [Column([], kind) for kind in types]
        return columns


def _without_zone(value: Any) -> Any:
    """A date of Debezium's time.precision.mode=isostring has a zone: 2024-01-31Z."""
    return value[:-1] if isinstance(value, str) and _ISO_DATE.fullmatch(value) else value


def _prefix_of(document: Mapping[str, Any]) -> str | None:
    """The prefix of the fields that Debezium adds to a flattened row, or None without them."""
    for name, value in document.items():
        if name.endswith("op") and name != "op" and text_of(value) in ("c", "u", "d", "r"):
            prefix = name[:-2]
            if any(f"{prefix}{other}" in document for other in _ADDED):
                return prefix
    own = ("op", "deleted", "source_ts_ms", "lsn", "source_lsn")
    return "__" if any(f"__{name}" in document for name in own) else None


def _connect_type(of: Mapping[str, Any]) -> str:
    return _named_type(
        of.get("name"),
        of.get("parameters") or {},
        _CONNECT_PLAIN.get(str(of.get("type")), "string"),
    )


def _avro_type(of: Any) -> str:
    plain = avro_files.spark_type(of)
    if not isinstance(of, Mapping):
        return plain
    return _named_type(of.get("connect.name"), of.get("connect.parameters") or {}, plain)


def _named_type(name: Any, parameters: Mapping[str, Any], plain: str) -> str:
    """The Spark type for a type name of Kafka Connect."""
    if name == "org.apache.kafka.connect.data.Decimal" and not plain.startswith("decimal"):
        scale = int(parameters.get("scale") or 0)
        # Without a precision it is unknown. MySQL has up to 65 digits, Spark 38.
        precision = int(parameters.get("connect.decimal.precision") or 38)
        if precision > 38:
            return "string"
        return f"decimal({precision},{scale})" if 0 <= scale <= precision else "string"
    return _CONNECT_TYPES.get(str(name), plain)


def message_key(root: Path, files: Sequence[str]) -> list[str]:
    """The columns of the messages' keys, if the sink wrote them beside these files, or nothing.

    Kafka Connect's S3 sink does (store.kafka.keys): `topic+0+5.keys.json` beside `topic+0+5.json`.
    The key of a message is the primary key of the table, or what message.key.columns names.
    """
    found: set[tuple[str, ...]] = set()
    for file in files:
        place = root / _EXTENSION.sub(r".keys\1", file)
        if not place.is_file():
            continue
        try:
            sample = sampling.read(place)
        except sampling.UnreadableSampleError:
            continue
        for document in sample.rows or [sample.columns]:
            if isinstance(document, Mapping) and set(document) == {"schema", "payload"}:
                document = document["payload"]
            found.add(tuple(document) if isinstance(document, Mapping) else ())
    return list(found.pop()) if len(found) == 1 else []


def fill(table: Table, events: Events, names: Sequence[str], key: Sequence[str] = ()) -> None:
    """Infer the table from the events, the file names and the columns of the messages' keys.

    Raises NoTableError without events.
    """
    table.format = "debezium"
    if events.is_dms:
        raise NoTableError("it is AWS DMS's JSON for Kinesis or Kafka, which is not supported")
    if events.messages and not events.rows and not events.plain:
        raise NoTableError(
            "its messages contain no rows: heartbeats, transactions, schema changes, or documents "
            "as text (MongoDB)"
        )
    if not events.rows and not events.plain:
        raise NoTableError("its files do not start with an event")
    topic = table.folder.split(".")
    if len(topic) > 1 and all(topic):
        table.origin, table.folder = (*table.origin, *topic[:-1]), topic[-1]
    if len(events.tables) > 1:
        table.todos.append(f"it has events of several tables: {', '.join(sorted(events.tables))}")
    if events.prefix != "__":
        table.settings["field_prefix"] = events.prefix
    if not events.rows:
        table.todos.append(
            "its records have neither an operation nor a position: if each is an upsert, set "
            "upserts_only: true and a sequence that orders them; otherwise format may be extract"
        )
    elif events.without_position:
        if all(SINK.fullmatch(name) or _OTHER_SINK.fullmatch(name) for name in names):
            table.settings["sequence"] = "offset"
        else:
            table.todos.append(
                "its changes have no position in the source's log (lsn; file and pos; scn): set "
                "sequence to the columns that order them, or add the position to add.fields"
            )
    found = events.columns()
    declared = set_columns(table, found)
    if not events.has_schema:
        table.hints.append(
            "its records have no types: numbers and texts may be dates, times and decimals; "
            "see timestamp_unit and decimals"
        )
    ops = {op for op, *_ in events.rows}
    first = [row for op, row, _ in events.rows if op == ("r" if "r" in ops else "c")]

    def values_of(name: str) -> list[list[Any]]:
        if any(row.get(name) is None for _, row, _ in events.rows):
            return []
        return [[text_of(row[name]) for row in first]]

    if key and all(name in declared for name in key):
        columns = [declared[name] for name in key]
        table.key = columns if len(columns) > 1 else columns[0]
    else:
        find_key(table, declared, values_of)
