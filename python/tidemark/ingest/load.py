"""One load of one table: what all its steps need."""

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from tidemark import formats
from tidemark.feeds import Feed
from tidemark.ingest.ledger import Plan
from tidemark.storage import LandingFolder


@dataclass(frozen=True)
class Cut:
    """Until `before`, a log has only the last change of each key (`keep_changes`).

    `load_id` was its newest load then, `at` this time. `last` is an SQL condition: among the old
    changes that meet it is the one with the highest place in the order.
    """

    before: datetime
    load_id: int
    at: datetime
    last: str


def log_of(spark: SparkSession, feed: Feed) -> DataFrame:
    """The rows of a change log. The column with the file is `_file`, whatever the lake's format."""
    rows, name = spark.table(feed.log), formats.of_lake().file_column
    return rows if name == "_file" else rows.withColumnRenamed(name, "_file")


@dataclass(frozen=True)
class Load:
    """A plan on its way into a table's change log.

    `newest_known` is the time of the newest change that landed before. `erased` are the subjects
    and feeds that have tombstones. `cut` is the last cut of the log.
    """

    spark: SparkSession
    feed: Feed
    root: LandingFolder
    plan: Plan
    run_id: str
    newest_known: datetime | None = None
    erased: frozenset[str] = frozenset()
    cut: Cut | None = None

    @property
    def log(self) -> DataFrame:
        """All rows of the table's change log."""
        return log_of(self.spark, self.feed)

    @property
    def known(self) -> DataFrame:
        """The rows of the log from loads that came to their end."""
        return self.log.where(f"_load_id <= {self.plan.settled}")

    @property
    def reloads(self) -> DataFrame:
        """The truncates that begin the reloads in the log."""
        return self.known.where("_is_delete and _op = 'T' and _position = 0")

    @property
    def unfinished(self) -> DataFrame:
        """The rows of the log from later loads, whose runs died."""
        return self.log.where(f"_load_id > {self.plan.settled}")
