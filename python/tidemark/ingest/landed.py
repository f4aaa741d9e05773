"""What one run does with one table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidemark.feeds import Feed
from tidemark.ingest.files import LandedFile
from tidemark.ingest.ledger import COUNTS, Plan
from tidemark.reasons import Reason
from tidemark.storage import from_micros

if TYPE_CHECKING:
    from pyspark.sql import Row


@dataclass
class Outcome:
    """The result of a plan: counts by file, and why files were set aside.

    `found` are the numbers of rows, by load and file, that runs which died had appended to the log.
    """

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    newest: dict[str, datetime] = field(default_factory=dict)
    set_aside: dict[str, str] = field(default_factory=dict)
    other_columns: set[str] = field(default_factory=set)
    new_columns: list[str] = field(default_factory=list)
    copies: int = 0
    entering: int = 0
    oldest_change: datetime | None = None
    newest_change: datetime | None = None
    found: dict[tuple[int, str], int] = field(default_factory=dict)
    notes: list[Reason] = field(default_factory=list)

    def count(self, counted: "Iterable[Row | Mapping[str, Any]]") -> None:
        """Add the counts of each file."""
        for row in counted:
            self.counts[row["_file"]] = {name: row[name] or 0 for name in COUNTS}
            self.entering += row["entering"]
            self.other_columns |= set(row["others"] or ())
            if row["unreadable"]:
                self.set_aside[row["_file"]] = row["unreadable"]
            if row["newest"] is not None:
                newest, oldest = from_micros(row["newest"]), from_micros(row["oldest"])
                self.newest[row["_file"]] = newest
                self.newest_change = max(newest, self.newest_change or newest)
                self.oldest_change = min(oldest, self.oldest_change or oldest)

    def total(self, name: str) -> int:
        """One of COUNTS, over all files."""
        return sum(counts[name] for counts in self.counts.values())

    @property
    def has_rows(self) -> bool:
        """Whether rows enter the log."""
        return self.entering > 0

    @property
    def has_dead_letters(self) -> bool:
        """Whether a row or a whole file was refused."""
        return bool(self.set_aside or self.total("rejected"))


@dataclass
class Landed:
    """What one run does with one table: the plan, and the outcome once it is carried out.

    `retracted` are files to take back, each after the load id of the retraction.
    """

    feed: Feed
    plan: Plan | None = None
    outcome: Outcome | None = None
    seconds: float = 0.0
    failure: str = ""
    notes: list[Reason] = field(default_factory=list)
    has_folder: bool = True
    retracted: list[tuple[int, LandedFile]] = field(default_factory=list)

    @property
    def is_new(self) -> bool:
        """Whether there was anything to land."""
        return bool(self.files or self.reasons or self.failure)

    @property
    def files(self) -> int:
        """Files that landed."""
        return len(self.plan.files) - self.set_aside if self.plan and self.outcome else 0

    @property
    def reasons(self) -> dict[str, str]:
        """The files that were refused whole, and why."""
        return self.outcome.set_aside if self.outcome else {}

    @property
    def set_aside(self) -> int:
        """Files that were refused whole."""
        return len(self.reasons)

    @property
    def counts(self) -> dict[str, int]:
        """COUNTS over all files, and `duplicate`."""
        done = self.outcome or Outcome()
        return {**{name: done.total(name) for name in COUNTS}, "duplicate": done.copies}

    @property
    def rows(self) -> int:
        """Rows that entered the log."""
        return self.counts["rows"]

    @property
    def rejected(self) -> int:
        """Records that went to the dead letter."""
        return self.counts["rejected"]

    @property
    def new_columns(self) -> list[str]:
        """The columns that the log got, with their types."""
        return self.outcome.new_columns if self.outcome else []

    @property
    def newest_change(self) -> datetime | None:
        """The time of the newest change that landed."""
        return self.outcome.newest_change if self.outcome else None

    def as_run(self) -> dict[str, object]:
        """A row of the table `tidemark.runs`."""
        return {
            "source_name": self.feed.source,
            "table_name": self.feed.table,
            "files": self.files,
            "set_aside": self.set_aside,
            **self.counts,
            "seconds": round(self.seconds, 3),
            "newest_change": self.newest_change,
            "failure": self.failure or None,
        }
