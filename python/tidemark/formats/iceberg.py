"""Iceberg: in Spark's own catalog, or in another one, on the same metastore or a REST catalog.

Its procedures do the work. Without Spark, only files in the warehouse of the metastore are read.
"""

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from pyarrow import fs

from tidemark import paths, places, s3, targets
from tidemark.errors import ConfigError, TidemarkError
from tidemark.formats.format import (
    LARGEST,
    MANY,
    OF_SPARK,
    SAFE,
    SMALL,
    Content,
    Forgotten,
    Format,
    Table,
)
from tidemark.ingest import books
from tidemark.spark import spark_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What a snapshot's summary calls the run that made it, also in the macro `_versions_of_iceberg`.
_RUN = "tidemark-run"
_CACHE = ".cache-enabled"
_SETTINGS = {
    # Each session keeps tables for half a minute, and would not see what another one writes.
    _CACHE: "false",
    # Each commit writes the metadata of all that came before it.
    ".table-default.write.metadata.delete-after-commit.enabled": "true",
    ".table-default.write.metadata.previous-versions-max": "20",
}
_SECRETS = ("credential", "token")
# Ask the catalog for credentials for the files of a table, as PyIceberg does.
_DELEGATION = {".header.X-Iceberg-Access-Delegation": "vended-credentials"}
_HIVE = {
    ".type": "hive",
    # Spark lacks the jar for Hive's locks. Here one process writes, and each table by one node.
    ".hadoop.iceberg.engine.hive.lock-enabled": "false",
    # As Spark's own client of the metastore, which may be new.
    ".hadoop.hive.metastore.schema.verification": "false",
    ".hadoop.datanucleus.schema.autoCreateAll": "true",
}


# Without Hive's locks, commits to one table take turns.
_one_writes = threading.Lock()


class Iceberg(Format):
    """Apache Iceberg."""

    name: ClassVar[str] = "iceberg"
    title: ClassVar[str] = "Iceberg"
    mark: ClassVar[re.Pattern[str]] = re.compile(r"\btable_type=ICEBERG\b", re.IGNORECASE)
    # `_file` is a name that Iceberg reserves.
    file_column: ClassVar[str] = "_landed_file"
    for_host: ClassVar[Mapping[str, str]] = {
        "": "org.apache.iceberg.spark.SparkSessionCatalog",
        _CACHE: _SETTINGS[_CACHE],
    }
    # Otherwise all changes that are no deletes go through one task, to be in one file.
    log_properties: ClassVar[Mapping[str, str]] = {
        "write.distribution-mode": "none",
        "write.spark.fanout.enabled": "true",
    }

    @property
    def catalog(self) -> str:
        """See `Format`."""
        if targets.catalog() != "rest":
            return ""
        return f"the REST catalog {' '.join(filter(None, map(_variable, ('uri', 'warehouse'))))}"

    def settings(self) -> dict[str, str]:
        """See `Format`."""
        name = self.for_host[""] if self.is_of_lake else "org.apache.iceberg.spark.SparkCatalog"
        return {"": name} | _SETTINGS | (_rest() if self.catalog else _HIVE)

    @property
    def extension(self) -> str:
        """See `Format`. Spark 4 can call procedures itself."""
        if spark_line.name() != "3.5":
            return ""
        return "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

    def problem(self, method: str) -> str:
        """See `Format`."""
        if method not in ("session", "thrift"):
            return "Only embedded Spark and a Thrift server (method: thrift) build such tables"
        if not paths.warehouse().startswith(("/", "s3a://")) and not self.catalog:
            return (
                f"The warehouse {paths.warehouse()} can only have Delta tables; a REST catalog "
                f"({targets.CATALOG_VARIABLE}) can have others"
            )
        return ""

    def for_merge(self, rows: "DataFrame") -> "DataFrame":
        """See `Format`. Spark 4.1 plans none from a view that reads a table of Iceberg."""
        return rows if spark_line.name() == "3.5" else rows.localCheckpoint()

    def writing(self) -> AbstractContextManager[Any]:
        """See `Format`."""
        return _one_writes

    def append(self, rows: "DataFrame", relation: str, once: tuple[str, int] | None = None) -> None:
        """See `Format`. It counts no transactions."""
        with self.writing():
            # In a thread, `saveAsTable` takes the table for one of Hive.
            rows.writeTo(relation).append()

    def overwrite(self, rows: "DataFrame", relation: str) -> None:
        """See `Format`."""
        from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

        with self.writing():
            rows.writeTo(relation).overwrite(F.lit(True))

    def commits_tell(self, run_id: str) -> dict[str, str]:
        """See `Format`. In Spark 3.5, only a DataFrame's writer can pass it."""
        if spark_line.name() == "3.5":
            return {}
        return {f"spark.sql.{self.name}.snapshot-property.{_RUN}": run_id}

    def look(self, relation: str, keep: timedelta | None) -> Table | None:
        """See `Format`."""
        if self.catalog:
            return Table(relation, old_files=None)
        told = _metadata(relation)
        return self._look(relation, told, keep) if told else None

    def look_by_spark(
        self, spark: "SparkSession", relation: str, keep: timedelta | None
    ) -> Table | None:
        """See `Format`."""
        if not spark.catalog.tableExists(books.quoted(relation)):
            return None
        return self._look(relation, _metadata_by_spark(spark, relation), keep)

    def _look(self, relation: str, told: Mapping[str, Any], keep: timedelta | None) -> Table:
        limit = _before(keep).timestamp() * 1000
        # Branches and tags keep theirs.
        kept = {ref["snapshot-id"] for ref in told.get("refs", {}).values()}
        kept.add(told.get("current-snapshot-id"))
        old = [
            each
            for each in told.get("snapshots", [])
            if each["timestamp-ms"] < limit and each["snapshot-id"] not in kept
        ]
        return replace(_files(relation, told), old_files=len(old))

    def content(self, relation: str) -> Content | None:
        """See `Format`."""
        told = None if self.catalog else _metadata(relation)
        if told is None:
            return None
        of_snapshot = {
            each["snapshot-id"]: _row_count(each["summary"]) for each in told.get("snapshots", [])
        }
        # When each snapshot became the current one. Those that are gone had as many as the oldest.
        rows = [
            (datetime.fromtimestamp(each["timestamp-ms"] / 1000, UTC), of_snapshot[snapshot])
            for each in reversed(told.get("snapshot-log", []))
            if (snapshot := each["snapshot-id"]) in of_snapshot
        ]
        if rows and len(told["snapshot-log"]) < told.get("last-sequence-number", 0):
            rows.append((datetime.min.replace(tzinfo=UTC), rows[-1][1]))
        return Content(_files(relation, told), rows, told.get("properties", {}))

    def compact(self, spark: "SparkSession", relation: str) -> None:
        """See `Format`."""
        options = {"min-input-files": MANY, "target-file-size-bytes": LARGEST}
        told = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
        spark.sql(_call("rewrite_data_files", relation, f"options => map({told})")).collect()

    def delete_old(
        self, spark: "SparkSession", relation: str, keep: timedelta | None
    ) -> tuple[int, int | None]:
        """See `Format`."""
        row = spark.sql(_expire(relation, _before(keep))).collect()[0].asDict()
        return sum(count or 0 for count in row.values()), None

    def versions(self, relation: str) -> str:
        """See `Format`."""
        name = books.quoted(relation)
        return (
            "select version.snapshot_id as version, made_current_at as timestamp, operation, "
            f"summary['{_RUN}'] as userMetadata from {name}.history as version "
            f"join {name}.snapshots as made on made.snapshot_id = version.snapshot_id "
            "order by made_current_at desc"
        )

    def restore(self, relation: str, version: int | str) -> str:
        """See `Format`."""
        return _call("set_current_snapshot", relation, f"snapshot_id => {version}")

    def forget(self, spark: "SparkSession", relation: str) -> Forgotten | None:
        """See `Format`. Also files of no version, and rows that merges have only marked."""
        properties = spark.sql(f"show tblproperties {books.quoted(relation)}")
        if properties.where("key = 'gc.enabled' and value = 'false'").collect():
            # Nessie, for example, keeps versions that the table's metadata does not tell.
            raise TidemarkError(
                f"{relation}: only the catalog deletes earlier versions (the table's gc.enabled is "
                "false). Delete them with its tools"
            )
        marked = "options => map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true')"
        spark.sql(_call("rewrite_data_files", relation, marked)).collect()
        spark.sql(_expire(relation, datetime.now(UTC))).collect()
        others = [ref.name for ref in _rows(spark, relation, "refs") if ref.name != "main"]
        if others:
            raise TidemarkError(
                f"{relation}: the branches or tags {', '.join(others)} keep earlier versions. Drop "
                "them, with the engine that created them"
            )
        left = _delete_orphans(spark, relation)
        newest = _rows(spark, relation, "snapshots")
        if len(newest) > 1:
            raise TidemarkError(f"{relation}: Iceberg has kept earlier versions. Erase again")
        # A table that was never written has none.
        return Forgotten(int(newest[0].snapshot_id), left) if newest else None

    def is_kept_in(self, folder: Path) -> bool:
        """See `Format`. It can be created in a folder with files."""
        return any((folder / "metadata").glob("*.metadata.json"))

    def lost(self, schema: str, folder: Path) -> Iterator[tuple[str, str]]:
        """See `Format`."""
        for metadata in [] if self.catalog else sorted(folder.glob("*/metadata")):
            found = _newest_metadata(str(metadata.parent))
            if found:
                name = f"{self.spark_catalog}.{schema}.{metadata.parent.name}"
                yield name, _register(name, found[0])

    def moves(self, spark: "SparkSession", relation: str) -> str:
        """See `Format`."""
        *_, schema, name = relation.split(".")
        if not self.catalog or not spark.catalog.databaseExists(f"`{schema}`"):
            return ""
        for row in spark.sql(f"show table extended in `{schema}` like '{name}'").collect():
            at = re.search(r"\bmetadata_location=([^,\]]+)", row.information)
            if at and self.mark.search(row.information):
                return _register(relation, at[1])
        return ""

    def registers(self, relation: str) -> str:
        """See `Format`. A first commit alone is what a killed build leaves."""
        found = _newest_metadata(_place(relation))
        if found and int(found[0].rpartition("/")[2].partition("-")[0]) > 0:
            return _register(relation, found[0])
        return ""


def _rest() -> dict[str, str]:
    """The settings of a REST catalog. A secret is no setting: Iceberg reads the variable."""
    if not _variable("uri"):
        raise ConfigError(
            f"{targets.CATALOG_VARIABLE} is 'rest', but {_name('uri')} is not set. Set it to the "
            "catalog's URI, such as https://catalog.example.com/api/catalog."
        )
    found = {f".{name}": _variable(name) for name in ("uri", "warehouse")}
    found |= {f".{name}": _variable(name) and f"env:{_name(name)}" for name in _SECRETS}
    found |= {f".{name}": value for name, value in s3.of_iceberg().items()}
    return {".type": "rest", **_DELEGATION} | {
        name: value for name, value in found.items() if value
    }


def _variable(name: str) -> str:
    return os.environ.get(_name(name), "")


def _name(variable: str) -> str:
    return f"{targets.CATALOG_VARIABLE}_{variable.upper()}"


def _metadata(relation: str) -> dict[str, Any] | None:
    found = _newest_metadata(_place(relation))
    return found[1] if found else None


def _place(relation: str) -> str:
    """The table's folder in the warehouse."""
    return books.place(".".join(relation.split(".")[-2:]))


def _metadata_by_spark(spark: "SparkSession", relation: str) -> dict[str, Any]:
    """The same from the table's metadata tables: perhaps only its catalog can read its files."""
    refs = {ref.name: {"snapshot-id": ref.snapshot_id} for ref in _rows(spark, relation, "refs")}
    snapshots = [
        {
            "snapshot-id": row.snapshot_id,
            "timestamp-ms": row.committed_at.timestamp() * 1000,
            "summary": row.summary,
        }
        for row in _rows(spark, relation, "snapshots")
    ]
    current = refs.get("main", {}).get("snapshot-id")
    return {"refs": refs, "snapshots": snapshots, "current-snapshot-id": current}


def _files(relation: str, told: Mapping[str, Any]) -> Table:
    current = told.get("current-snapshot-id")
    summary: dict[str, str] = next(
        (each["summary"] for each in told.get("snapshots", []) if each["snapshot-id"] == current),
        {},
    )
    files = int(summary.get("total-data-files", 0))
    size = int(summary.get("total-files-size", 0))
    return Table(relation, files, size, files if size < SMALL * files else 0)


def _row_count(summary: Mapping[str, str]) -> int:
    marked = int(summary.get("total-position-deletes", 0))
    return int(summary.get("total-records", 0)) - marked


def _before(keep: timedelta | None) -> datetime:
    return datetime.now(UTC) - (SAFE if keep is None else keep)


def _expire(relation: str, before: datetime) -> str:
    at = f"timestamp'{before:%Y-%m-%d %H:%M:%S}'"
    return _call("expire_snapshots", relation, f"older_than => {at}, retain_last => 1")


def _rows(spark: "SparkSession", relation: str, metadata: str) -> list[Any]:
    return spark.table(f"{books.quoted(relation)}.{metadata}").collect()


def _call(procedure: str, relation: str, arguments: str) -> str:
    *catalog, schema, table = relation.replace("`", "").split(".")
    of = (*catalog, OF_SPARK)[0]
    name = books.literal(f"{schema}.{table}")
    return f"call {of}.system.{procedure}(table => {name}, {arguments})"


def _delete_orphans(spark: "SparkSession", relation: str) -> str:
    """Delete the files in a table's folder that no snapshot has; says if they cannot be listed.

    Without a list of files, the procedure refuses to look at those of the last day. Here they are
    all old: only one process writes.
    """
    described = spark.sql(f"describe table extended {books.quoted(relation)}")
    folder = described.where("col_name = 'Location'").collect()[-1].data_type
    # Spark takes the path for a pattern, and may list files with another scheme than the table's:
    # the procedure would ignore these.
    pattern = re.sub(r"([*?{}\[\]\\])", r"\\\1", re.sub("^s3:", "s3a:", folder))
    root = re.sub(r"(?<=/)[^/].*", "", folder, count=1)
    path = f"concat('{root}', regexp_replace(path, '^([a-zA-Z0-9]+:)?/+', '')) as file_path"
    view = f"_tidemark_files_{uuid4().hex}"
    try:
        files = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(pattern)
        listed = files.selectExpr(path, "timestamp'1970-01-01' as last_modified")
        listed.createOrReplaceTempView(view)
        spark.sql(_call("remove_orphan_files", relation, f"file_list_view => '{view}'")).collect()
    except Exception as error:  # each file system has its own
        return (
            f"{relation}: Spark could not list the files in {folder}, so those of no snapshot, "
            "which a killed build may leave, are still there "
            f"({str(error).splitlines()[0][:200]}). Delete them with the catalog's tools"
        )
    finally:
        spark.catalog.dropTempView(view)
    return ""


def _newest_metadata(place: str) -> tuple[str, dict[str, Any]] | None:
    """The file of a table's last commit and what it says; None if this process reaches none.

    Not the highest number: of a table that was dropped and created again, both may be there.
    """
    try:
        files, root = places.files_in(place)
        listed = files.get_file_info(fs.FileSelector(f"{root}/metadata", allow_not_found=True))
    except OSError:
        return None
    found = []
    for each in listed:
        if re.fullmatch(r"\d+-.*[.]metadata[.]json", each.base_name):
            # A process that was killed while it wrote has not committed this file.
            with files.open_input_stream(each.path) as file, suppress(ValueError):
                told = json.loads(file.read())
                found.append((told["last-updated-ms"], each.base_name, told))
    if not found:
        return None
    _, name, told = max(found, key=lambda each: each[:2])
    return f"{place}/metadata/{name}", told


def _register(relation: str, metadata: str) -> str:
    return _call("register_table", relation, f"metadata_file => {books.literal(metadata)}")
