"""What Tidemark needs of a table format: `Format`, and what it says of a table."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tidemark import targets
from tidemark.spark import spark_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The name of Spark's own catalog.
OF_SPARK = "spark_catalog"
# Files below this size are small. So many of them in a partition are compacted, into files of up
# to the larger size. Larger files stay as they are: otherwise each run would rewrite them.
SMALL, LARGEST = 64 << 20, 128 << 20
MANY = 10
# For so long, the files of old versions stay, since a query or a run may still read them.
SAFE = timedelta(days=7)


@dataclass
class Table:
    """A table, as its metadata says. `most_small` is the most small files in one partition.

    `old_files` are what a maintenance would delete: files of old versions, for Iceberg old
    snapshots. None if only Spark can tell.
    """

    relation: str
    files: int = 0
    size: int = 0
    most_small: int = 0
    old_files: int | None = 0

    @property
    def has_many_small(self) -> bool:
        """Whether it has something to compact."""
        return self.most_small >= MANY

    @property
    def is_due(self) -> bool:
        """Whether maintenance would do something."""
        return self.has_many_small or self.old_files != 0


@dataclass(frozen=True)
class Content:
    """A table's files, and the rows after each commit, with its time, the newest first."""

    table: Table
    rows: Sequence[tuple[datetime, int]]
    properties: Mapping[str, str]


@dataclass(frozen=True)
class Forgotten:
    """The only version that a table has left, and what an erasure leaves for a person to check."""

    version: int
    left: str = ""


class Format(ABC):
    """A table format. `relation` is a table's name: `schema.table`, or with a catalog before it."""

    # As in `file_format`. It is also the name of its catalog, if the lake has another format.
    name: ClassVar[str]
    title: ClassVar[str]
    # Of another format than Delta: what `show table extended` says of its tables in the metastore.
    mark: ClassVar[re.Pattern[str]]

    # Whether its tables can have a catalog of their own, beside Delta's. Otherwise they are in
    # Spark's own catalog, and a table's folder tells the format.
    has_catalog: ClassVar[bool] = True
    # Whether `create or replace table` replaces a table.
    replaces: ClassVar[bool] = True
    # Why `tidemark maintain` leaves its tables out; '' if it does not.
    maintains: ClassVar[str] = ""
    # The column of a change log with the file's path.
    file_column: ClassVar[str] = "_file"
    # The properties with which a change log is created.
    log_properties: ClassVar[Mapping[str, str]] = {}

    # The settings of Spark's own catalog, without its name, that a host's session must have for a
    # lake of this format.
    for_host: ClassVar[Mapping[str, str]] = {}

    @property
    def is_of_lake(self) -> bool:
        """Whether the change logs have this format. Its tables are then in Spark's own catalog."""
        return targets.lake_format() == self.name

    @property
    def spark_catalog(self) -> str:
        """The name of the Spark catalog that has its tables."""
        return self.name if self.has_catalog and not self.is_of_lake else OF_SPARK

    @property
    def catalog(self) -> str:
        """The catalog that alone has its tables, for people; '' if the metastore has them."""
        return ""

    def settings(self) -> Mapping[str, str]:
        """The Spark settings of its catalog, without the catalog's name."""
        return {}

    @property
    def of_session(self) -> Mapping[str, str]:
        """The Spark settings besides its catalog's; without the first, Spark lacks the format."""
        return {}

    def problem(self, method: str) -> str:
        """Why a target with this `method` cannot have its tables, or ''."""
        return ""

    def is_in(self, folder: str) -> bool:
        """Whether a table's folder has a table of this format, which has no catalog of its own."""
        return False

    def is_kept_in(self, folder: Path) -> bool:
        """Whether a folder without a table in the catalog has one that was not just begun."""
        return False

    @property
    def extension(self) -> str:
        """The class that extends Spark's SQL for it; '' if this Spark version needs none."""
        return ""

    @property
    def lock(self) -> Path:
        """The lock file of its jars."""
        return spark_line.lock_folder() / f"jars-{self.name}.lock"

    def for_merge(self, rows: "DataFrame") -> "DataFrame":
        """Rows of a change log, as a MERGE of this Spark version can read them."""
        return rows

    def writing(self) -> AbstractContextManager[Any]:
        """While a thread commits to a table that others commit to, with a statement."""
        return nullcontext()

    @abstractmethod
    def append(self, rows: "DataFrame", relation: str, once: tuple[str, int] | None = None) -> None:
        """Append rows in one commit, by the names of their columns.

        `once` has a transaction's name and number. Where the format counts these, it ignores rows
        whose number is not higher than the last one.
        """

    @abstractmethod
    def overwrite(self, rows: "DataFrame", relation: str) -> None:
        """Replace all rows of a table in one commit."""

    @abstractmethod
    def commits_tell(self, run_id: str) -> dict[str, str]:
        """The settings with which the commits of tables have the run's id.

        Empty if this Spark version cannot write it.
        """

    @abstractmethod
    def look(self, relation: str, keep: timedelta | None) -> Table | None:
        """The table without Spark; None if it is not built, or not where Spark puts tables.

        What is older than `keep` is old; None leaves it to the table.
        """

    @abstractmethod
    def content(self, relation: str) -> Content | None:
        """What is in the table, without Spark; None if it is not built, or cannot be read here."""

    @abstractmethod
    def look_by_spark(
        self, spark: "SparkSession", relation: str, keep: timedelta | None
    ) -> Table | None:
        """The table as Spark sees it, where `look` cannot see it; None without one."""

    @abstractmethod
    def compact(self, spark: "SparkSession", relation: str) -> None:
        """Make larger files of `MANY` or more small ones."""

    @abstractmethod
    def delete_old(
        self, spark: "SparkSession", relation: str, keep: timedelta | None
    ) -> tuple[int, int | None]:
        """Delete the files of old versions; their number and bytes, if the format tells them."""

    @abstractmethod
    def versions(self, relation: str) -> str:
        """A query of the versions, the newest first, with columns of Delta's history.

        They are version, timestamp, operation, and userMetadata: the id of the run.
        """

    @abstractmethod
    def restore(self, relation: str, version: int | str) -> str:
        """The statement that puts a table back to a version."""

    @abstractmethod
    def forget(self, spark: "SparkSession", relation: str) -> Forgotten | None:
        """Delete all that the newest version does not need; None if it is another format's table.

        Raises TidemarkError if other versions stay.
        """

    @abstractmethod
    def lost(self, schema: str, folder: Path) -> Iterator[tuple[str, str]]:
        """The tables in a schema's folder, and the statement that registers each."""

    def moves(self, spark: "SparkSession", relation: str) -> str:
        """The statement that adds a table of the metastore to the format's `catalog`, or ''."""
        return ""

    @abstractmethod
    def registers(self, relation: str) -> str:
        """The statement that registers a table that is in the warehouse; '' if it is not there."""
