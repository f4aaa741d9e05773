"""Delta, the default format: OPTIMIZE, VACUUM and RESTORE do the work."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from tidemark import places
from tidemark.formats.format import LARGEST, SMALL, Content, Forgotten, Format, Table
from tidemark.ingest import books

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAINTENANCE = {
    "spark.databricks.delta.optimize.minFileSize": str(SMALL),
    "spark.databricks.delta.optimize.maxFileSize": str(LARGEST),
    # Then the history of the table has the number and the bytes of the deleted files.
    "spark.databricks.delta.vacuum.logging.enabled": "true",
    # Otherwise Delta 4 ignores the hours of `vacuum ... retain`, without a word.
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
}
# With these, VACUUM deletes files of any age.
AT_ONCE = MAINTENANCE | {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
# With this setting, each commit of a table has the run's id (`userMetadata` in `describe history`).
_COMMITS_TELL = "spark.databricks.delta.commitInfo.userMetadata"
# The version of a file in _delta_log.
_VERSION = re.compile(r"\.?(\d{20})\.")
_INTERVAL = "delta.checkpointInterval"


class Delta(Format):
    """Delta Lake. Its tables can only be in Spark's own catalog."""

    name: ClassVar[str] = "delta"
    title: ClassVar[str] = "Delta"

    @property
    def extension(self) -> str:
        """See `Format`."""
        return "io.delta.sql.DeltaSparkSessionExtension"

    def append(self, rows: "DataFrame", relation: str, once: tuple[str, int] | None = None) -> None:
        """See `Format`."""
        writer = rows.write.format(self.name).mode("append")
        if once:
            name, number = once
            writer = writer.option("txnAppId", name).option("txnVersion", number)
        writer.saveAsTable(relation)

    def overwrite(self, rows: "DataFrame", relation: str) -> None:
        """See `Format`."""
        writer = rows.write.format(self.name).mode("overwrite").option("overwriteSchema", True)
        writer.saveAsTable(relation)

    def commits_tell(self, run_id: str) -> dict[str, str]:
        """See `Format`."""
        return {_COMMITS_TELL: run_id}

    def look(self, relation: str, keep: timedelta | None) -> Table | None:
        """See `Format`."""
        try:
            delta = books.opened(relation)
            if delta is None:
                return None
            table = files_of(relation, delta)
            old = delta.vacuum(
                _hours(keep), dry_run=True, enforce_retention_duration=False, full=True
            )
        except Exception:  # delta-rs cannot read all that Spark writes
            return Table(relation, old_files=None)
        return replace(table, old_files=sum(_is_data(relation, path) for path in old))

    def content(self, relation: str) -> Content | None:
        """See `Format`."""
        try:
            delta = books.opened(relation)
            if delta is None:
                return None
            deleted = pa.RecordBatchReader.from_stream(delta.deletion_vectors())
            rows = delta.count() - sum(_false(each.column("selection_vector")) for each in deleted)
            grown = list(rows_after(delta.history(), rows))
            return Content(files_of(relation, delta), grown, delta.metadata().configuration)
        except Exception:  # delta-rs cannot read all that Spark writes
            return None

    def look_by_spark(
        self, spark: "SparkSession", relation: str, keep: timedelta | None
    ) -> Table | None:
        """See `Format`."""
        if not spark.catalog.tableExists(books.quoted(relation)):
            return None
        detail = spark.sql(f"describe detail {books.quoted(relation)}").collect()[0]
        if detail["format"] != "delta":
            return None
        files, size = detail["numFiles"], detail["sizeInBytes"]
        is_small = files and size / files < SMALL
        return Table(relation, files, size, files if is_small else 0, None)

    def compact(self, spark: "SparkSession", relation: str) -> None:
        """See `Format`."""
        spark.sql(f"optimize {books.quoted(relation)}").collect()

    def delete_old(
        self, spark: "SparkSession", relation: str, keep: timedelta | None
    ) -> tuple[int, int | None]:
        """See `Format`."""
        name = books.quoted(relation)
        retain = "" if keep is None else f" retain {_hours(keep)} hours"
        try:
            spark.sql(f"vacuum {name}{retain}").collect()
        except Exception as error:
            # The table's own property keeps its files longer.
            too_short = ("RETENTION_PERIOD_TOO_SHORT", "low retention")
            if not retain or not any(each in str(error) for each in too_short):
                raise
            spark.sql(f"vacuum {name}").collect()
        history = spark.sql(f"describe history {name} limit 3")
        for row in history.where("operation = 'VACUUM START'").limit(1).collect():
            told = row["operationMetrics"]
            return int(told.get("numFilesToDelete", 0)), int(told.get("sizeOfDataToDelete", 0))
        return 0, 0

    def versions(self, relation: str) -> str:
        """See `Format`."""
        return f"describe history {books.quoted(relation)}"

    def restore(self, relation: str, version: int | str) -> str:
        """See `Format`."""
        return f"restore table {books.quoted(relation)} to version as of {version}"

    def forget(self, spark: "SparkSession", relation: str) -> Forgotten | None:
        """See `Format`. Also what the table's log says of earlier versions."""
        name = books.quoted(relation)
        detail = spark.sql(f"describe detail {name}").collect()[0]
        if detail["format"] != "delta":
            return None
        if detail["properties"].get("delta.enableDeletionVectors") == "true":
            spark.sql(f"reorg table {name} apply (purge)").collect()
        spark.sql(f"vacuum {name} retain 0 hours").collect()
        # Delta writes a checkpoint now, so that the entries before it can go.
        spark.sql(f"alter table {name} set tblproperties ('{_INTERVAL}' = '1')")
        before = detail["properties"].get(_INTERVAL)
        spark.sql(
            f"alter table {name} set tblproperties ('{_INTERVAL}' = '{before}')"
            if before
            else f"alter table {name} unset tblproperties ('{_INTERVAL}')"
        )
        left = ""
        try:
            _forget_versions(detail["location"])
        except OSError as error:
            left = (
                f"the entries of earlier versions in the _delta_log of {relation}, which have the "
                "smallest and largest values of columns. Delta deletes them after "
                f"delta.logRetentionDuration. {error}"
            )
        history = spark.sql(f"describe history {name} limit 1").collect()
        return Forgotten(history[0]["version"], left)

    def lost(self, schema: str, folder: Path) -> Iterator[tuple[str, str]]:
        """See `Format`."""
        for log in sorted(folder.glob("*/_delta_log")):
            name = f"{schema}.{log.parent.name}"
            yield name, register(name, str(log.parent))

    def registers(self, relation: str) -> str:
        """See `Format`. It becomes an external table."""
        is_there = books.opened(relation) is not None
        return register(relation, books.place(relation)) if is_there else ""


def files_of(relation: str, delta: Any) -> Table:
    """The files of a DeltaTable of delta-rs in its newest version, without older ones."""
    found = pa.table(delta.get_add_actions(flatten=True))
    small = found.filter(pc.less(found["size_bytes"], SMALL))
    partitions = [name for name in found.column_names if name.startswith("partition.")]
    counts = small.group_by(partitions).aggregate([([], "count_all")])["count_all"]
    size = pc.sum(found["size_bytes"]).as_py() or 0
    return Table(relation, found.num_rows, size, pc.max(counts).as_py() or 0)


def rows_after(commits: Iterable[Mapping[str, Any]], rows: int) -> Iterator[tuple[datetime, int]]:
    """The time of each commit of Delta's history and the number of rows after it.

    It goes back from the present number of rows, by the commits' metrics. At the end it says how
    many rows there were before the oldest commit.
    """
    for commit in commits:
        metrics = commit.get("operationMetrics") or {}
        # delta-rs and Spark give numbers, and other things, as numbers and as texts.
        number = {name: int(each) for name, each in metrics.items() if str(each).isdigit()}
        added = number.get("numOutputRows", number.get("num_added_rows", 0))
        operation = commit["operation"]
        is_append = (commit.get("operationParameters") or {}).get("mode") == "Append"
        replaces = "REPLACE" in operation or (operation == "WRITE" and not is_append)
        rows = added if replaces else rows
        yield datetime.fromtimestamp(commit["timestamp"] / 1000, UTC), rows
        if operation == "MERGE":
            rows -= number.get("numTargetRowsInserted", 0) - number.get("numTargetRowsDeleted", 0)
        elif operation == "DELETE":
            rows += number.get("numDeletedRows", 0)
        elif operation == "WRITE" and is_append:
            rows -= added
        if commit.get("version") == 0:
            rows = 0
    yield datetime.min.replace(tzinfo=UTC), rows


def _false(vectors: Any) -> int:
    return len(vectors.flatten()) - int(pc.sum(vectors.flatten()).as_py() or 0)


def _hours(keep: timedelta | None) -> int | None:
    """For how long VACUUM keeps the files of old versions."""
    return None if keep is None else int(keep.total_seconds() // 3600)


def _is_data(relation: str, path: str) -> bool:
    """Whether it is a data file that is still there: delta-rs also lists what the log removed.

    Hadoop's checksums are none, and go with their file. In an object store nobody looks, so for
    some days after a VACUUM the next ones find nothing.
    """
    place = books.place(relation)
    return path.endswith(".parquet") and ("://" in place or Path(place, unquote(path)).exists())


def register(relation: str, place: str) -> str:
    """The statement that adds a table that is there to the metastore, as an external table."""
    return f"create table {books.quoted(relation)} using delta location {books.literal(place)}"


def _forget_versions(location: str) -> None:
    """Delete the entries in a table's _delta_log that are older than its newest checkpoint.

    Raises OSError if this process does not reach the files.
    """
    files, root = places.files_in(location)
    entries = files.get_file_info(fs.FileSelector(f"{root}/_delta_log"))
    versions = [
        (int(found[1]), each) for each in entries if (found := _VERSION.match(each.base_name))
    ]
    checkpoints = [version for version, each in versions if ".checkpoint." in each.base_name]
    newest = max(checkpoints, default=0)
    for version, each in versions:
        if version < newest:
            files.delete_file(each.path)
