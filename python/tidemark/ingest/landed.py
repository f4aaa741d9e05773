"""What one run landed of one table."""

from dataclasses import dataclass, field
from datetime import datetime

from tidemark.feeds import Feed
from tidemark.ingest import ledger
from tidemark.ingest.files import LandedFile
from tidemark.ingest.reasons import Reason


@dataclass
class Landed:
    """What one run landed of one table."""

    feed: Feed
    files: int = 0
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys((*ledger.COUNTS, "duplicate"), 0)
    )
    reasons: dict[str, str] = field(default_factory=dict)
    new_columns: list[str] = field(default_factory=list)
    newest_change: datetime | None = None
    seconds: float = 0.0
    failure: str = ""
    notes: list[Reason] = field(default_factory=list)
    has_folder: bool = True
    # Files that are taken back, each behind the load id of that.
    retracted: list[tuple[int, LandedFile]] = field(default_factory=list)

    @property
    def is_new(self) -> bool:
        """Whether there was anything to land."""
        return bool(self.files or self.reasons or self.failure)

    @property
    def set_aside(self) -> int:
        """Files that were refused whole; `reasons` says why."""
        return len(self.reasons)

    @property
    def rows(self) -> int:
        """Rows that entered the log."""
        return self.counts["rows"]

    @property
    def rejected(self) -> int:
        """Records that went to the dead letter."""
        return self.counts["rejected"]

    def as_run(self) -> dict[str, object]:
        """As a row of the table `tidemark.runs`."""
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

    def add(self, plan: ledger.Plan, outcome: ledger.Outcome) -> None:
        """Count one plan that was carried out."""
        self.files += len(plan.files) - len(outcome.set_aside)
        self.reasons |= outcome.set_aside
        self.new_columns += outcome.new_columns
        self.notes += outcome.notes
        for name in ledger.COUNTS:
            self.counts[name] += outcome.total(name)
        self.counts["duplicate"] += outcome.copies
        newest = [at for at in (self.newest_change, outcome.newest_change) if at]
        self.newest_change = max(newest, default=None)
