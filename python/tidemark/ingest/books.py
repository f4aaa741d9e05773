"""Tidemark's own tables: where they are, and reading and writing them.

They get a few rows in each run. Spark needs seconds for every look at such a table, so delta-rs
reads and writes them wherever this process reaches their files, and Spark elsewhere. Both write
the same Delta tables, which Spark creates. In a lake of another format, Spark does all of it.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark import paths, s3, storage, targets
from tidemark.errors import ConfigError
from tidemark.spark import lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.feeds import Feed

SCHEMA = "tidemark"
LEDGER = f"{SCHEMA}.ledger"
DEAD_LETTER = f"{SCHEMA}.dead_letter"
BUILDS = f"{SCHEMA}.builds"
RUNS = f"{SCHEMA}.runs"
ERASED = f"{SCHEMA}.erased"

LEDGER_ROW = (
    "load_id bigint, source_name string, table_name string, file string, kind string, "
    "file_at timestamp, size bigint, modified timestamp, status string, rows bigint, "
    "rejected bigint, run_id string, at timestamp, skipped bigint, newest_change timestamp"
)
DEAD_LETTER_ROW = (
    "file string, position bigint, column string, value string, reason string, raw string, "
    "code string"
)
TABLES = {
    LEDGER: LEDGER_ROW,
    DEAD_LETTER: f"source_name string, table_name string, {DEAD_LETTER_ROW}, load_id bigint, "
    "run_id string, at timestamp, superseded_by bigint",
    BUILDS: "node string, fingerprint string, load_id bigint, run_id string, at timestamp, "
    "status string, seconds double, message string",
    RUNS: "run_id string, source_name string, table_name string, files bigint, set_aside bigint, "
    "rows bigint, inserted bigint, updated bigint, deleted bigint, late bigint, duplicate bigint, "
    "rejected bigint, skipped bigint, seconds double, newest_change timestamp, failure string, "
    "at timestamp",
}
# Created by the first erasure, since most lakes need none.
_AT_FIRST_USE = {
    ERASED: "erasure string, kind string, subject string, value string, at timestamp",
}
# The version of what Tidemark keeps: its own tables, the change logs, and what builds remember in
# the properties of models. A change that an older Tidemark would misread increases it, and brings
# the step that migrates a lake. Docs: log.md, install.md.
FORMAT = 1
_FORMAT = "tidemark.format"
KEEPS_FORMAT = f"'{_FORMAT}' = '{FORMAT}'"
# The property that only the tables of current_from_changes and history_from_changes have.
DERIVED = "tidemark.derived_from"

_TYPES = {
    "bigint": pa.int64(),
    "string": pa.string(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", "UTC"),
}
# After so many commits, compact small files and delete files that were replaced a week before.
_TIDY_EACH = 100

# Delta's table features with which delta-rs may append to a log.
_WRITABLE = {"appendOnly", "invariants", "deletionVectors"}
# Spark's tasks share a Parquet file by its row groups.
_ROWS_OF_GROUP = 100_000

Row = Mapping[str, Any]


class Books:
    """Reads and writes Tidemark's own tables: this class through Spark."""

    def __init__(self, spark: "SparkSession | None" = None) -> None:
        self._spark = spark

    @property
    def spark(self) -> "SparkSession":
        """The Spark that knows the places of all tables."""
        assert self._spark
        return self._spark

    def create(self) -> None:
        """Create missing tables, and missing columns after an upgrade of Tidemark.

        Raises ConfigError if a newer Tidemark has written the tables.
        """
        from tidemark.spark import session

        self.spark.sql(f"create schema if not exists {SCHEMA}")
        found = self.spark.sql(f"show tables in {SCHEMA}").collect()
        there = {f"{SCHEMA}.{row.tableName}" for row in found}
        if LEDGER in there:
            _require_known_format(Books(self.spark))
        for table, columns in TABLES.items():
            if table not in there:
                session.create_table(self.spark, table, columns, f"tblproperties ({KEEPS_FORMAT})")
                continue
            known = {name.lower() for name in self.spark.table(table).columns}
            for entry in columns.split(", "):
                if entry.split()[0] not in known:
                    self.spark.sql(f"alter table {table} add column {entry}")

    def read(
        self, table: str, columns: Sequence[str], where: str = "true"
    ) -> Iterator[pa.RecordBatch]:
        """The columns of the rows for which a simple SQL condition holds, in any order."""
        from tidemark.spark import spark_line

        found = self.spark.table(table).where(where)
        known = {name.lower() for name in found.columns}
        wanted = pa.schema([schema(table).field(name) for name in columns])
        told = [
            name if name in known else f"cast(null as {_spark_type(table, name)}) as {name}"
            for name in columns
        ]
        yield from spark_line.to_arrow(found.selectExpr(*told), wanted).to_batches()

    def read_table(self, table: str, columns: Sequence[str], where: str = "true") -> pa.Table:
        """As `read`, as one table."""
        wanted = pa.schema([schema(table).field(name) for name in columns])
        return pa.Table.from_batches(self.read(table, columns, where), wanted)

    def exists(self, table: str) -> bool:
        """Whether the table is there."""
        return self.spark.catalog.tableExists(table)

    def newest_load(self, feed: "Feed") -> int:
        """The newest load in the feed's change log or dead letter, 0 without one."""
        if not self.spark.catalog.tableExists(feed.log):
            return 0
        found = self.spark.sql(
            f"select max(_load_id) as id from {feed.log} union all "
            f"select max(load_id) from {DEAD_LETTER} where {is_of(feed)}"
        )
        return max(row["id"] or 0 for row in found.collect())

    def oldest_change(self, feed: "Feed") -> datetime | None:
        """The time of the oldest change in the feed's change log; None if it is not known."""
        micros = f"select unix_micros(min(_changed_at)) as at from {feed.log}"
        at = self.spark.sql(micros).collect()[0]["at"]
        return None if at is None else storage.from_micros(at)

    def rows_of_load(self, feed: "Feed", load_id: int) -> int:
        """The number of rows that the feed's change log has of a load, as its files say."""
        return self.spark.table(feed.log).where(f"_load_id = {load_id}").count()

    def log_to_append(self, feed: "Feed") -> Any:
        """The feed's change log for `append_load`, or None if only Spark can write it."""
        return None

    def properties(self, table: str) -> dict[str, str]:
        """The properties of a table of the lake."""
        found = self.spark.sql(f"show tblproperties {table}").collect()
        return {row["key"]: row["value"] for row in found}

    def is_in_use(self, table: str) -> bool:
        """Whether the table is certainly there: this process sees its files, with a first row."""
        return False

    def columns(self, table: str) -> dict[str, str]:
        """The columns of a table of the lake, with their comments."""
        found = self.spark.table(table).schema
        return {field.name: field.metadata.get("comment", "") for field in found}

    def set_property(self, table: str, name: str, value: str) -> None:
        """Set a property of one of Tidemark's own tables."""
        self.spark.sql(f"alter table {table} set tblproperties ('{name}' = '{value}')")

    def append(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows, in one commit; without rows there is none. What a row lacks is NULL."""
        complete = _complete(table, rows)
        if complete:
            self._write(table, complete, "append")

    def replace(self, table: str, rows: Iterable[Row]) -> None:
        """Replace all rows of the table, in one commit."""
        self._write(table, _complete(table, rows), "overwrite")

    def _write(self, table: str, rows: list[dict[str, Any]], mode: str) -> None:
        from tidemark import formats

        names = schema(table).names
        frame = self.spark.createDataFrame(
            [tuple(row[name] for name in names) for row in rows], columns_of(table)
        )
        of_lake = formats.of_lake()
        write = of_lake.append if mode == "append" else of_lake.overwrite
        write(frame.coalesce(1), table)


def without_spark() -> Books | None:
    """The tables when they are there and this process reaches their files, else None.

    Raises ConfigError if a newer Tidemark has written them.
    """
    try:
        is_there = _is_reached() and all(_is_table(place(table)) for table in TABLES)
    except OSError:
        # Spark's start reports why a store cannot be reached.
        return None
    if not is_there:
        return None
    own = _Files()
    _require_known_format(own)
    return own


def of(spark: "SparkSession") -> Books:
    """The tables, through delta-rs or Spark; `create` may be needed first."""
    return _Files(spark) if _is_reached() else Books(spark)


def place(table: str) -> str:
    """Where the files of `schema.table` are, in a lake that this machine's Spark has made."""
    schema, name = table.replace("`", "").split(".")
    return f"{paths.warehouse()}/{schema.lower()}.db/{name.lower()}"


def quoted(table: str) -> str:
    """`schema.table` as SQL writes it, whatever its characters."""
    return ".".join(f"`{part}`" for part in table.split("."))


def literal(text: str) -> str:
    """A text as a Spark SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def sizes(tables: Iterable[str]) -> list[int]:
    """The bytes of tables of the lake in their newest versions, if this process reaches them."""
    found = []
    for name in tables:
        with suppress(Exception):  # delta-rs cannot read all that Spark writes
            if table := opened(name):
                found.append(sum(pa.table(table.get_add_actions())["size_bytes"].to_pylist()))
    return found


def opened(table: str) -> Any:
    """A table of the lake as a DeltaTable of delta-rs; None if it is not there, or not reached."""
    return _opened(place(table)) if _is_reached() and _is_table(place(table)) else None


def rows(found: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """The result of `read` as dictionaries."""
    return [row for batch in found for row in batch.to_pylist()]


def table_of(row: Row) -> str:
    """The feed of a row of one of Tidemark's own tables, as `source.table`."""
    return f"{row['source_name']}.{row['table_name']}"


def _is_reached() -> bool:
    """Whether the warehouse of this lake is the one that Spark uses, and has Delta tables.

    A host's Spark, or a Thrift server that `tidemark thrift` has not started, has its own.
    """
    method = targets.method()
    if targets.lake_format() != "delta":
        return False
    if method == "session":
        return not spark_is_a_hosts()
    # Imported late: few need it.
    from tidemark.spark import server

    return method == "thrift" and server.is_connected()


def needs_spark() -> bool:
    """Whether only Spark reaches the tables of this target."""
    return targets.method() != "session" or not _is_reached()


def spark_is_a_hosts() -> bool:
    """Whether somebody else started the Spark of this process."""
    if lock.is_held(paths.lake_dir()):
        return False
    if os.environ.get("PYSPARK_GATEWAY_PORT"):
        return True
    if "pyspark" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return bool(SparkSession.getActiveSession() or getattr(SparkSession, "_instantiatedSession", 0))


def _is_table(at: str) -> bool:
    from deltalake import DeltaTable

    if "://" not in at:
        return Path(at, "_delta_log").is_dir()
    return bool(DeltaTable.is_deltatable(at, _options(at)))


def _opened(at: str) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(at, storage_options=_options(at))


def _options(at: str) -> dict[str, str] | None:
    """delta-rs's options for a store, without the credentials, which are in the environment."""
    if "://" not in at:
        return None
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    options = {"AWS_REGION": s3.region()}
    if endpoint:
        options |= {"AWS_ENDPOINT_URL": endpoint}
        options |= {"AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}
    return {name: value for name, value in options.items() if value}


def columns_of(table: str) -> str:
    """The columns of one of Tidemark's own tables, as SQL."""
    return (TABLES | _AT_FIRST_USE)[table]


@cache
def schema(table: str) -> pa.Schema:
    """The columns of one of Tidemark's own tables, as Arrow types."""
    pairs = (entry.split() for entry in columns_of(table).split(", "))
    return pa.schema([(name, _TYPES[data_type]) for name, data_type in pairs])


def _complete(table: str, rows: Iterable[Row]) -> list[dict[str, Any]]:
    now = datetime.now(UTC)
    names = schema(table).names
    return [{name: row.get(name) for name in names} | {"at": row.get("at") or now} for row in rows]


def _require_known_format(own: Books) -> None:
    # Lakes of before the property have the first format.
    found = int(own.properties(LEDGER).get(_FORMAT, "1"))
    if found > FORMAT:
        raise ConfigError(
            f"The lake was written by a newer Tidemark: it has format {found}, and this Tidemark "
            f"knows formats up to {FORMAT}. Upgrade it: pip install --upgrade tidemark"
        )


class _Files(Books):
    """With delta-rs, which reads and writes Delta tables without Spark, where it reaches them."""

    def create(self) -> None:
        if all(_is_table(place(table)) for table in TABLES) and all(
            {field.name for field in self._open(table).schema().fields} >= {*schema(table).names}
            for table in TABLES
        ):
            _require_known_format(self)
            return
        super().create()

    def read(
        self, table: str, columns: Sequence[str], where: str = "true"
    ) -> Iterator[pa.RecordBatch]:
        delta = self._open(table)
        there = {field.name for field in delta.schema().fields}
        known = [name for name in columns if name in there]
        wanted = pa.schema([schema(table).field(name) for name in columns])
        for batch in pa.RecordBatchReader.from_stream(
            delta.scan(columns=known, predicate=None if where == "true" else where)
        ):
            arrays = [
                batch.column(field.name).cast(field.type)
                if field.name in there
                else pa.nulls(batch.num_rows, field.type)
                for field in wanted
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)

    def exists(self, table: str) -> bool:
        return _is_table(place(table))

    def newest_load(self, feed: "Feed") -> int:
        if not _is_table(place(feed.log)):
            # There is no log yet, or its schema has a place of its own.
            return super().newest_load(feed) if self._spark else 0
        tables = [self._open(name) for name in (feed.log, DEAD_LETTER)]
        return max(table.transaction_version(transaction(feed)) or 0 for table in tables)

    def oldest_change(self, feed: "Feed") -> datetime | None:
        # By the statistics of Delta's log, which may lack it.
        if not _is_table(place(feed.log)):
            return None
        files = pa.table(self._open(feed.log).get_add_actions(flatten=True))
        if "min._changed_at" not in files.column_names:
            return None
        found: datetime | None = pc.min(files["min._changed_at"]).as_py()
        return found.replace(tzinfo=UTC) if found and not found.tzinfo else found

    def rows_of_load(self, feed: "Feed", load_id: int) -> int:
        if not _is_table(place(feed.log)):
            return super().rows_of_load(feed, load_id)
        columns = ["min._load_id", "max._load_id", "num_records"]
        files = pa.table(self._open(feed.log).get_add_actions(flatten=True))
        if not {*columns} <= {*files.column_names}:
            return super().rows_of_load(feed, load_id)
        found = 0
        for first, last, count in zip(*(files[name].to_pylist() for name in columns), strict=True):
            if first == last == load_id:
                found += count
            elif first is None or first <= load_id <= last:
                # A compacted file has rows of several loads, and some files no statistics.
                return super().rows_of_load(feed, load_id)
        return found

    def log_to_append(self, feed: "Feed") -> Any:
        if not _is_table(place(feed.log)):
            return None
        log = self._open(feed.log)
        protocol = log.protocol()
        is_plain = protocol.min_writer_version <= 2
        is_known = {*(protocol.writer_features or ["?"])} <= _WRITABLE
        return log if is_plain or is_known else None

    def properties(self, table: str) -> dict[str, str]:
        if not _is_table(place(table)):
            return super().properties(table)
        return dict(self._open(table).metadata().configuration)

    def is_in_use(self, table: str) -> bool:
        from tidemark.spark import session

        # What a killed run was creating has one commit.
        at = place(table)
        return "://" not in at and not session.is_young(Path(at))

    def columns(self, table: str) -> dict[str, str]:
        if not _is_table(place(table)):
            return super().columns(table)
        return comments(self._open(table))

    def set_property(self, table: str, name: str, value: str) -> None:
        self._open(table).alter.set_table_properties({name: value}, raise_if_not_exists=False)

    def _open(self, table: str) -> Any:
        return _opened(place(table))

    def _write(self, table: str, rows: list[dict[str, Any]], mode: str) -> None:
        from deltalake import write_deltalake

        delta = self._open(table)
        write: Any = write_deltalake
        write(
            delta,
            pa.Table.from_pylist(rows, schema=schema(table)),
            mode=mode,
            schema_mode="overwrite" if mode == "overwrite" else None,
        )
        if delta.version() % _TIDY_EACH == 0:
            delta.optimize.compact()
            delta.vacuum(dry_run=False)


def comments(table: Any) -> dict[str, str]:
    """The columns of an opened table, and the comment of each."""
    found = table.schema().fields
    return {field.name: (field.metadata or {}).get("comment", "") for field in found}


def append_load(log: Any, feed: "Feed", load_id: int, rows: pa.RecordBatchReader) -> None:
    """Append a load to a change log, once: Delta counts it as the feed's transaction."""
    from deltalake import CommitProperties, Transaction, WriterProperties, write_deltalake

    write: Any = write_deltalake
    write(
        log,
        rows,
        mode="append",
        writer_properties=WriterProperties(compression="SNAPPY", max_row_group_size=_ROWS_OF_GROUP),
        commit_properties=CommitProperties(
            app_transactions=[Transaction(transaction(feed), load_id)]
        ),
    )


def _spark_type(table: str, column: str) -> str:
    return dict(entry.split() for entry in columns_of(table).split(", "))[column]


def is_of(feed: "Feed") -> str:
    """The SQL condition of a feed's rows in the ledger and the dead letter."""
    return is_of_table(feed.source, feed.table)


def is_of_table(source: str, table: str) -> str:
    """`is_of` for the names of a source and a table."""
    source, table = (text.replace("'", "''") for text in (source, table))
    return f"source_name = '{source}' and table_name = '{table}'"


def transaction(feed: "Feed") -> str:
    """The name under which Delta counts the loads of a feed, in its log and the dead letter."""
    return f"tidemark/{feed.name}"
