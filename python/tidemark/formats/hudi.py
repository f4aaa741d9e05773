"""Hudi, on Spark 3.5 only: its tables are in Spark's own catalog, beside the Delta tables.

So a table's name does not tell that it is Hudi's, but its folder `.hoodie` does. Hudi compacts and
cleans its tables itself, with each write.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tidemark import paths
from tidemark.errors import ConfigError, TidemarkError
from tidemark.formats.format import Content, Forgotten, Format, Table
from tidemark.ingest import books
from tidemark.spark import spark_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The name of a write that has ended: when it was requested, and when it was completed.
_COMPLETED = re.compile(r"(\d{17})_(\d{17})\.\w+")
_ONLY_MODELS = "Only models can be Hudi tables"


class Hudi(Format):
    """Apache Hudi."""

    name: ClassVar[str] = "hudi"
    title: ClassVar[str] = "Hudi"
    mark: ClassVar[re.Pattern[str]] = re.compile(r"^Provider: hudi\s*$", re.MULTILINE)
    has_catalog: ClassVar[bool] = False
    replaces: ClassVar[bool] = False
    maintains: ClassVar[str] = "Hudi compacts and cleans its tables itself, with each write"

    @property
    def of_session(self) -> Mapping[str, str]:
        """See `Format`."""
        return {
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            # The default of 64 MB is too little for what a join broadcasts.
            "spark.kryoserializer.buffer.max": "1g",
            # Without compiling, Spark 3.5 fails in a merge if a struct has a struct that is NULL.
            "spark.sql.codegen.factoryMode": "FALLBACK",
            # Otherwise a session that has read a table never sees what another one writes.
            "spark.sql.filesourceTableRelationCacheSize": "0",
            # Hudi writes dates before 1582 as Spark 3 does, but does not say so in its files.
            "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
            # A table that is created is then added to the metastore by Spark. Hudi's own way loses
            # its comment, and can fail if several tables are created at once.
            "spark.hoodie.datasource.meta.sync.enable": "false",
            "spark.hoodie.datasource.hive_sync.enable": "false",
        }

    @property
    def extension(self) -> str:
        """See `Format`."""
        return "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"

    def problem(self, method: str) -> str:
        """See `Format`."""
        if spark_line.name() != "3.5":
            return "Hudi has no jar for Spark 4.1: only Spark 3.5 builds such tables"
        if method != "session":
            return "Only embedded Spark builds such tables"
        if not paths.warehouse().startswith("/"):
            return f"The warehouse {paths.warehouse()} is no local folder"
        return ""

    def is_in(self, folder: str) -> bool:
        """See `Format`."""
        return Path(folder, ".hoodie", "hoodie.properties").exists()

    def is_kept_in(self, folder: Path) -> bool:
        """See `Format`. A first commit alone is what a killed build leaves."""
        return len(_completed(folder)) > 1

    def append(self, rows: "DataFrame", relation: str, once: tuple[str, int] | None = None) -> None:
        """See `Format`. No table that Tidemark itself appends to is Hudi's."""
        raise TidemarkError(f"{relation}: {_ONLY_MODELS}.")

    def overwrite(self, rows: "DataFrame", relation: str) -> None:
        """See `Format`."""
        raise TidemarkError(f"{relation}: {_ONLY_MODELS}.")

    def commits_tell(self, run_id: str) -> dict[str, str]:
        """See `Format`. Its commits do not name their runs."""
        return {}

    def look(self, relation: str, keep: timedelta | None) -> Table | None:
        """See `Format`."""
        return None

    def content(self, relation: str) -> Content | None:
        """See `Format`."""
        return None

    def look_by_spark(
        self, spark: "SparkSession", relation: str, keep: timedelta | None
    ) -> Table | None:
        """See `Format`."""
        return None

    def compact(self, spark: "SparkSession", relation: str) -> None:
        """See `Format`."""
        raise ConfigError(f"{relation} is not maintained. {self.maintains}.")

    def delete_old(
        self, spark: "SparkSession", relation: str, keep: timedelta | None
    ) -> tuple[int, int | None]:
        """See `Format`."""
        raise ConfigError(f"{relation} is not maintained. {self.maintains}.")

    def versions(self, relation: str) -> str:
        """See `Format`."""
        raise ConfigError(
            f"{relation} is a Hudi table, whose versions do not name their runs: it cannot be "
            "restored. Rebuild it from its log: dbt build --full-refresh --select "
            f"{relation.rpartition('.')[2]}"
        )

    def restore(self, relation: str, version: int | str) -> str:
        """See `Format`."""
        return self.versions(relation)

    def forget(self, spark: "SparkSession", relation: str) -> Forgotten | None:
        """See `Format`. A full refresh drops the table and creates it, so it has one version."""
        found = _completed(Path(books.place(relation)))
        if len(found) > 1:
            raise TidemarkError(
                f"{relation}: Hudi has kept earlier versions. Rebuild it, and erase again: dbt "
                f"build --full-refresh --select {relation.rpartition('.')[2]}"
            )
        return Forgotten(int(found[0])) if found else None

    def lost(self, schema: str, folder: Path) -> Iterator[tuple[str, str]]:
        """See `Format`."""
        for properties in sorted(folder.glob("*/.hoodie/hoodie.properties")):
            table = properties.parents[1]
            if _completed(table):
                yield f"{schema}.{table.name}", _register(f"{schema}.{table.name}", str(table))

    def registers(self, relation: str) -> str:
        """See `Format`."""
        place = books.place(relation)
        return _register(relation, place) if self.is_kept_in(Path(place)) else ""


def _completed(folder: Path) -> list[str]:
    """When the writes of a table ended, the oldest first. Cleaning, for example, is no write."""
    names = [file.name for file in (folder / ".hoodie" / "timeline").glob("*commit")]
    return sorted(found[2] for name in names if (found := _COMPLETED.fullmatch(name)))


def _register(relation: str, place: str) -> str:
    """The statement that adds a table to the metastore. Its properties there are lost."""
    return f"create table {books.quoted(relation)} using hudi location {books.literal(place)}"
