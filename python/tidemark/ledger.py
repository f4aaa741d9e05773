"""The ledger: which file versions landed, in which load; and what could not land, and why.

Three Delta tables in the schema `tidemark`: `ledger` (a row when a file is planned, another
when it is landed or set aside), `dead_letter` (rows and files that were refused), `builds`
(up to which load dbt has built each table).
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from tidemark.feeds import Feed
from tidemark.files import LandedFile

SCHEMA = "tidemark"
LEDGER = f"{SCHEMA}.ledger"
DEAD_LETTER = f"{SCHEMA}.dead_letter"
BUILDS = f"{SCHEMA}.builds"

LEDGER_ROW = (
    "load_id bigint, source_name string, table_name string, file string, kind string, file_at timestamp, "
    "size bigint, modified timestamp, status string, rows bigint, rejected bigint, "
    "run_id string, at timestamp"
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
    """The files that land together under one load id; `rewritten` landed before, otherwise."""

    load_id: int
    files: tuple[LandedFile, ...]
    rewritten: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Summary:
    """What became of a plan."""

    rows: int
    rejected: int
    set_aside: int


@dataclass
class Ledger:
    """What the ledger table says, by table; read once a run."""

    last_load_id: int = 0
    versions: dict[str, dict[str, set[tuple[int, datetime]]]] = field(default_factory=dict)
    open_plans: dict[str, dict[int, list[LandedFile]]] = field(default_factory=dict)

    def knows(self, feed: Feed, file: LandedFile) -> bool:
        """Whether this version of the file was planned, and so is or will be landed."""
        return (file.size, file.modified) in self.versions.get(feed.name, {}).get(file.path, set())

    def unfinished(self, feed: Feed) -> list[Plan]:
        """The plans that a run which died left behind, oldest first."""
        plans = self.open_plans.get(feed.name, {})
        return [self._plan(feed, load_id, plans[load_id]) for load_id in sorted(plans)]

    def plan(
        self, spark: SparkSession, feed: Feed, new: list[LandedFile], run_id: str
    ) -> Plan:
        """Write down that these files will land together, under a load id of their own."""
        self.last_load_id += 1
        for file in new:
            versions = self.versions.setdefault(feed.name, {}).setdefault(file.path, set())
            versions.add((file.size, file.modified))
        plan = self._plan(feed, self.last_load_id, new)
        _write(spark, feed, plan, "planned", {}, {}, run_id)
        return plan

    def _plan(self, feed: Feed, load_id: int, planned: list[LandedFile]) -> Plan:
        versions = self.versions.get(feed.name, {})
        rewritten = frozenset(f.path for f in planned if len(versions.get(f.path, ())) > 1)
        return Plan(load_id, tuple(sorted(planned)), rewritten)


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
        f"select source_name, table_name, load_id, file, kind, cast(file_at as timestamp) as file_at, "
        f"size, modified, status from {LEDGER} order by load_id"
    ).collect()
    for row in rows:
        feed = f"{row.source_name}.{row.table_name}"
        book.last_load_id = max(book.last_load_id, row.load_id)
        modified = row.modified.replace(tzinfo=UTC)
        book.versions.setdefault(feed, {}).setdefault(row.file, set()).add((row["size"], modified))
        if row.status == "planned":
            file = LandedFile(
                row.file_at.replace(tzinfo=UTC), row.file, row.kind, row["size"], modified
            )
            book.open_plans.setdefault(feed, {}).setdefault(row.load_id, []).append(file)
    for row in rows:
        if row.status != "planned":
            book.open_plans.get(f"{row.source_name}.{row.table_name}", {}).pop(row.load_id, None)
    return book


def finish(spark: SparkSession, feed: Feed, plan: Plan, run_id: str) -> Summary:
    """Mark the plan's files as landed or set aside, with the counts that the tables show."""
    landed = _counts(
        spark, f"select _file as file, count(*) as n from {feed.log} "
        f"where _load_id = {plan.load_id} and _op <> 'T' group by _file"
    )
    of_this_load = (
        f"from {DEAD_LETTER} where load_id = {plan.load_id} "
        f"and source_name = '{feed.source}' and table_name = '{feed.table}'"
    )
    rejected = _counts(
        spark, f"select file, count(position) as n {of_this_load} group by file"
    )
    set_aside = _counts(
        spark,
        f"select file, count(*) as n {of_this_load} and position is null group by file",
    )
    status = {path: "set_aside" for path in set_aside}
    counts = {
        file.path: (landed.get(file.path, 0), rejected.get(file.path, 0)) for file in plan.files
    }
    _write(spark, feed, plan, "landed", status, counts, run_id)
    return Summary(sum(landed.values()), sum(rejected.values()), len(set_aside))


def _counts(spark: SparkSession, query: str) -> dict[str, int]:
    return {row.file: row.n for row in spark.sql(query).collect()}


def _write(
    spark: SparkSession,
    feed: Feed,
    plan: Plan,
    default_status: str,
    status: dict[str, str],
    counts: dict[str, tuple[int, int]],
    run_id: str,
) -> None:
    now = datetime.now(UTC)
    rows = [
        (
            plan.load_id,
            feed.source,
            feed.table,
            file.path,
            file.kind,
            file.time,
            file.size,
            file.modified,
            status.get(file.path, default_status),
            *counts.get(file.path, (None, None)),
            run_id,
            now,
        )
        for file in plan.files
    ]
    frame = spark.createDataFrame(rows, LEDGER_ROW)
    frame.coalesce(1).write.format("delta").mode("append").saveAsTable(LEDGER)
