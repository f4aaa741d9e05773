"""The ledger: which file versions landed, in which load; and what could not land, and why.

Three Delta tables in the schema `tidemark`: `ledger` (a row when a file is planned, another
when it is landed or set aside, one more when someone confirms it), `dead_letter` (rows and files
that were refused), `builds` (up to which load dbt has built each table).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark.errors import ConfigError
from tidemark.feeds import Feed
from tidemark.files import LandedFile

SCHEMA = "tidemark"
LEDGER = f"{SCHEMA}.ledger"
DEAD_LETTER = f"{SCHEMA}.dead_letter"
BUILDS = f"{SCHEMA}.builds"

LEDGER_ROW = (
    "load_id bigint, source_name string, table_name string, file string, kind string, "
    "file_at timestamp, size bigint, modified timestamp, status string, rows bigint, "
    "rejected bigint, run_id string, at timestamp"
)
DEAD_LETTER_ROW = (
    "file string, position bigint, column string, value string, reason string, raw string"
)
TABLES = {
    LEDGER: LEDGER_ROW,
    DEAD_LETTER: f"source_name string, table_name string, {DEAD_LETTER_ROW}, load_id bigint, "
    "run_id string, at timestamp",
    BUILDS: "source_name string, table_name string, load_id bigint, project string, run_id string, "
    "at timestamp",
}


@dataclass(frozen=True)
class Plan:
    """The files that land together under one load id; someone has confirmed some of them."""

    load_id: int
    files: tuple[LandedFile, ...]
    confirmed: frozenset[str] = frozenset()
    is_new: bool = True


@dataclass
class Outcome:
    """What became of a plan's files."""

    rows: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    set_aside: set[str] = field(default_factory=set)
    has_rows: bool = False

    def count(self, counted: Iterable[Row]) -> None:
        """Take in the counts of each file: rows, rejected, unreadable."""
        for row in counted:
            self.rows[row["_file"]] = row["rows"]
            self.rejected[row["_file"]] = row["rejected"]
            self.has_rows = self.has_rows or row["entering"] > 0
            if row["unreadable"]:
                self.set_aside.add(row["_file"])

    @property
    def total_rows(self) -> int:
        """Rows that entered the log."""
        return sum(self.rows.values())

    @property
    def has_dead_letters(self) -> bool:
        """Whether a row or a whole file was refused."""
        return bool(self.set_aside or sum(self.rejected.values()))


@dataclass
class Ledger:
    """What the ledger table says, by table; read once a run."""

    last_load_id: int = 0
    versions: dict[str, dict[str, set[tuple[int, datetime]]]] = field(default_factory=dict)
    confirmed: set[tuple[str, str, int, datetime]] = field(default_factory=set)
    open_plans: dict[str, dict[int, list[LandedFile]]] = field(default_factory=dict)

    def knows(self, feed: Feed, file: LandedFile) -> bool:
        """Whether this version of the file was planned, and is not to be tried again."""
        return (file.size, file.modified) in self.versions.get(feed.name, {}).get(file.path, set())

    def unfinished(self, feed: Feed) -> list[Plan]:
        """The plans that a run which died left behind, oldest first."""
        plans = self.open_plans.get(feed.name, {})
        return [self._plan(feed, load_id, plans[load_id], False) for load_id in sorted(plans)]

    def plan(self, feed: Feed, new: list[LandedFile]) -> Plan:
        """These files will land together, under a load id of their own."""
        self.last_load_id += 1
        for file in new:
            versions = self.versions.setdefault(feed.name, {}).setdefault(file.path, set())
            versions.add((file.size, file.modified))
        return self._plan(feed, self.last_load_id, new, True)

    def _plan(self, feed: Feed, load_id: int, planned: list[LandedFile], is_new: bool) -> Plan:
        confirmed = frozenset(
            file.path
            for file in planned
            if (feed.name, file.path, file.size, file.modified) in self.confirmed
        )
        return Plan(load_id, tuple(sorted(planned)), confirmed, is_new)


def create_tables(spark: SparkSession) -> None:
    """Create what is missing of the schema `tidemark`."""
    if spark.catalog.tableExists(BUILDS):
        return
    spark.sql(f"create schema if not exists {SCHEMA}")
    for name, columns in TABLES.items():
        spark.sql(f"create table if not exists {name} ({columns}) using delta")


def read(spark: SparkSession) -> Ledger:
    """The ledger as it stands."""
    book = Ledger()
    rows = spark.sql(
        f"select source_name, table_name, load_id, file, kind, file_at, size, "
        f" modified, status from {LEDGER} order by load_id, at"
    ).collect()
    for row in rows:
        feed = f"{row.source_name}.{row.table_name}"
        book.last_load_id = max(book.last_load_id, row.load_id)
        modified = row.modified.replace(tzinfo=UTC)
        versions = book.versions.setdefault(feed, {}).setdefault(row.file, set())
        versions.add((row["size"], modified))
        if row.status == "confirmed":
            versions.remove((row["size"], modified))
            book.confirmed.add((feed, row.file, row["size"], modified))
        if row.status == "planned":
            file = LandedFile(
                row.file_at.replace(tzinfo=UTC), row.file, row.kind, row["size"], modified
            )
            book.open_plans.setdefault(feed, {}).setdefault(row.load_id, []).append(file)
    for row in rows:
        if row.status != "planned":
            book.open_plans.get(f"{row.source_name}.{row.table_name}", {}).pop(row.load_id, None)
    return book


def write_planned(spark: SparkSession, plans: Iterable[tuple[Feed, Plan]], run_id: str) -> None:
    """Write down, in one commit, what is going to be landed."""
    _write(
        spark,
        [
            _row(feed, plan, file, "planned", None, None, run_id)
            for feed, plan in plans
            for file in plan.files
        ],
    )


def write_finished(
    spark: SparkSession, done: Iterable[tuple[Feed, Plan, Outcome]], run_id: str
) -> None:
    """Write down, in one commit, what was landed or set aside, with its counts."""
    _write(
        spark,
        [
            _row(
                feed,
                plan,
                file,
                "set_aside" if file.path in outcome.set_aside else "landed",
                outcome.rows.get(file.path, 0),
                outcome.rejected.get(file.path, 0),
                run_id,
            )
            for feed, plan, outcome in done
            for file in plan.files
        ],
    )


def confirm(spark: SparkSession, path: str, run_id: str) -> str:
    """Note that the file's newest version, which was set aside, is meant; gives `source.table`.

    Raises ConfigError when no such file is set aside.
    """
    newest = spark.sql(
        f"""
        select source_name, table_name, file, max_by(struct(*), struct(load_id, at)) as last
        from {LEDGER} group by source_name, table_name, file
        """
    ).where("last.status = 'set_aside'")
    found = newest.where(F.col("file") == path).collect()
    if not found:
        others = [row["file"] for row in newest.select("file").sort("file").limit(10).collect()]
        raise ConfigError(
            f"No file '{path}' is set aside. "
            + (f"These are: {', '.join(others)}." if others else "No file at all is.")
        )
    for row in found:
        again = {**row["last"].asDict(), "status": "confirmed", "run_id": run_id}
        again |= {"rows": None, "rejected": None, "at": datetime.now(UTC)}
        names = [entry.split()[0] for entry in LEDGER_ROW.split(", ")]
        _write(spark, [tuple(again[name] for name in names)])
    return ", ".join(f"{row['source_name']}.{row['table_name']}" for row in found)


def _row(
    feed: Feed,
    plan: Plan,
    file: LandedFile,
    status: str,
    rows: int | None,
    rejected: int | None,
    run_id: str,
) -> tuple[object, ...]:
    return (
        plan.load_id,
        feed.source,
        feed.table,
        file.path,
        file.kind,
        file.time,
        file.size,
        file.modified,
        status,
        rows,
        rejected,
        run_id,
        datetime.now(UTC),
    )


def _write(spark: SparkSession, rows: list[tuple[object, ...]]) -> None:
    if rows:
        frame = spark.createDataFrame(rows, LEDGER_ROW)
        frame.coalesce(1).write.format("delta").mode("append").saveAsTable(LEDGER)
