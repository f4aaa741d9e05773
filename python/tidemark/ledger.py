"""The ledger: which file versions landed, in which load; and what could not land, and why.

Three Delta tables in the schema `tidemark`: `ledger` (a row when a file is planned, another
when it is landed or set aside, one more when someone confirms it), `dead_letter` (rows and files
that were refused), `builds` (up to which load dbt has built each table).
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark import session
from tidemark.errors import ConfigError
from tidemark.feeds import Feed
from tidemark.files import EPOCH, LandedFile

SCHEMA = "tidemark"
LEDGER = f"{SCHEMA}.ledger"
DEAD_LETTER = f"{SCHEMA}.dead_letter"
BUILDS = f"{SCHEMA}.builds"
RUNS = f"{SCHEMA}.runs"

LEDGER_ROW = (
    "load_id bigint, source_name string, table_name string, file string, kind string, "
    "file_at timestamp, size bigint, modified timestamp, status string, rows bigint, "
    "rejected bigint, run_id string, at timestamp, skipped bigint"
)
DEAD_LETTER_ROW = (
    "file string, position bigint, column string, value string, reason string, raw string"
)
TABLES = {
    LEDGER: LEDGER_ROW,
    DEAD_LETTER: f"source_name string, table_name string, {DEAD_LETTER_ROW}, load_id bigint, "
    "run_id string, at timestamp, superseded_by bigint",
    BUILDS: "source_name string, table_name string, load_id bigint, project string, run_id string, "
    "at timestamp",
    RUNS: "run_id string, source_name string, table_name string, files bigint, set_aside bigint, "
    "rows bigint, inserted bigint, updated bigint, deleted bigint, late bigint, duplicate bigint, "
    "rejected bigint, skipped bigint, seconds double, newest_change timestamp, failure string, "
    "at timestamp",
}


# A file's version: its size and when it was written.
Version = tuple[int, datetime]

# What is counted of a file's records; see models/_tidemark__sources.yml.
COUNTS = ("rows", "rejected", "skipped", "inserted", "updated", "deleted", "late")


@dataclass(frozen=True)
class Plan:
    """The files that land together under one load id.

    `confirmed` are the paths that someone has confirmed; `read_before` those of file versions that
    were read before, in `earlier_loads`, and `landed_before` those of them that landed;
    `supersedes` tells that older versions were. `gone` are the paths that a run which died has
    planned, and that are there no longer; `left_over` says of load files why they are not of this
    full load.
    """

    load_id: int
    files: tuple[LandedFile, ...]
    confirmed: frozenset[str] = frozenset()
    read_before: frozenset[str] = frozenset()
    landed_before: frozenset[str] = frozenset()
    earlier_loads: frozenset[int] = frozenset()
    supersedes: bool = False
    gone: frozenset[str] = frozenset()
    left_over: Mapping[str, str] = field(default_factory=dict)
    is_new: bool = True


@dataclass
class Outcome:
    """What became of a plan's files: counts by file, and why some were set aside."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    set_aside: dict[str, str] = field(default_factory=dict)
    other_columns: set[str] = field(default_factory=set)
    new_columns: list[str] = field(default_factory=list)
    copies: int = 0
    oldest_change: datetime | None = None
    newest_change: datetime | None = None
    has_rows: bool = False

    def count(self, counted: Iterable[Row]) -> None:
        """Take in the counts of each file."""
        for row in counted:
            self.counts[row["_file"]] = {name: row[name] or 0 for name in COUNTS}
            self.has_rows = self.has_rows or row["entering"] > 0
            self.other_columns |= set(row["others"] or ())
            if row["unreadable"]:
                self.set_aside[row["_file"]] = row["unreadable"]
            if row["newest"] is not None:
                newest = EPOCH + timedelta(microseconds=row["newest"])
                oldest = EPOCH + timedelta(microseconds=row["oldest"])
                self.newest_change = max(newest, self.newest_change or newest)
                self.oldest_change = min(oldest, self.oldest_change or oldest)

    def total(self, name: str) -> int:
        """One of COUNTS, over all files."""
        return sum(counts[name] for counts in self.counts.values())

    @property
    def has_dead_letters(self) -> bool:
        """Whether a row or a whole file was refused."""
        return bool(self.set_aside or self.total("rejected"))


@dataclass
class Ledger:
    """What the ledger table says, by table; read once a run."""

    last_load_id: int = 0
    # The versions of each path, and in which loads each was read; those to be read are not here.
    versions: dict[str, dict[str, dict[Version, set[int]]]] = field(default_factory=dict)
    asked_for: set[tuple[str, str, Version]] = field(default_factory=set)
    confirmed: set[tuple[str, str, Version]] = field(default_factory=set)
    open_plans: dict[str, dict[int, list[LandedFile]]] = field(default_factory=dict)
    landed: dict[str, set[str]] = field(default_factory=dict)

    def knows(self, feed: Feed, file: LandedFile) -> bool:
        """Whether this version of the file was planned, and nobody asked to read it again."""
        version = (file.size, file.modified)
        known = version in self.versions.get(feed.name, {}).get(file.path, {})
        return known and (feed.name, file.path, version) not in self.asked_for

    def newest_versions(self, feed: Feed) -> dict[str, Version]:
        """The newest version that is known of each of the feed's files."""
        return {
            path: max(versions, key=lambda version: version[1])
            for path, versions in self.versions.get(feed.name, {}).items()
        }

    def paths(self, feed: Feed) -> set[str]:
        """The paths of all files of the feed that have landed."""
        return self.landed.get(feed.name, set())

    def wanted(self, feed: Feed) -> set[str]:
        """The paths of files that someone asked to read again."""
        return {path for name, path, _ in self.asked_for if name == feed.name}

    def unfinished(self, feed: Feed) -> list[Plan]:
        """The plans that a run which died left behind, oldest first."""
        plans = self.open_plans.get(feed.name, {})
        return [self._plan(feed, load_id, plans[load_id], False) for load_id in sorted(plans)]

    def plan(self, feed: Feed, new: list[LandedFile]) -> Plan:
        """These files will land together, under a load id of their own."""
        self.last_load_id += 1
        return self._plan(feed, self.last_load_id, new, True)

    def _plan(self, feed: Feed, load_id: int, planned: list[LandedFile], is_new: bool) -> Plan:
        paths = self.versions.get(feed.name, {})
        read_before, earlier, confirmed = set(), set(), set()
        for file in planned:
            version = (file.size, file.modified)
            loads = {load for load in paths.get(file.path, {}).get(version, ()) if load < load_id}
            if loads:
                read_before.add(file.path)
                earlier |= loads
            if (feed.name, file.path, version) in self.confirmed:
                confirmed.add(file.path)
        return Plan(
            load_id,
            tuple(sorted(planned)),
            frozenset(confirmed),
            frozenset(read_before),
            frozenset(read_before & self.paths(feed)),
            frozenset(earlier),
            supersedes=any(file.path in paths for file in planned),
            is_new=is_new,
        )


def create_tables(spark: SparkSession) -> None:
    """Create what is missing of the schema `tidemark`."""
    spark.sql(f"create schema if not exists {SCHEMA}")
    there = {f"{SCHEMA}.{row.tableName}" for row in spark.sql(f"show tables in {SCHEMA}").collect()}
    for name, columns in TABLES.items():
        if name not in there:
            # Each run adds a small file or two: Delta puts them together now and then.
            properties = "tblproperties (delta.autoOptimize.autoCompact = true)"
            session.create_table(spark, name, columns, properties)


def read(spark: SparkSession) -> Ledger:
    """The ledger as it stands."""
    book = Ledger()
    rows: Any = (
        spark.table(LEDGER)
        .selectExpr(
            "concat(source_name, '.', table_name) as feed",
            *["load_id", "file", "kind", "unix_micros(file_at) as file_at", "size"],
            *["unix_micros(modified) as modified", "status"],
        )
        .orderBy("load_id", "at")
        # Arrow: rows by the hundred thousand.
        .toPandas()
    )
    for feed, load_id, path, kind, file_at, size, modified, status in zip(
        *(rows[name].tolist() for name in rows), strict=True
    ):
        book.last_load_id = max(book.last_load_id, load_id)
        version = (size, EPOCH + timedelta(microseconds=modified))
        one = (feed, path, version)
        loads = book.versions.setdefault(feed, {}).setdefault(path, {}).setdefault(version, set())
        plans = book.open_plans.setdefault(feed, {})
        if status == "planned":
            at = EPOCH + timedelta(microseconds=file_at)
            plans.setdefault(load_id, []).append(LandedFile(at, path, kind, *version))
            book.asked_for.discard(one)
        elif status in ("confirmed", "replayed"):
            book.asked_for.add(one)
            if status == "confirmed":
                book.confirmed.add(one)
        else:
            loads.add(load_id)
            plans.pop(load_id, None)
            if status == "landed":
                book.landed.setdefault(feed, set()).add(path)
    return book


def write_planned(spark: SparkSession, plans: Iterable[tuple[Feed, Plan]], run_id: str) -> None:
    """Write down, in one commit, what is going to be landed."""
    _write(
        spark,
        [
            _row(feed, plan, file, "planned", None, run_id)
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
                outcome.counts.get(file.path),
                run_id,
            )
            for feed, plan, outcome in done
            for file in plan.files
        ],
    )


def newest_changes(spark: SparkSession) -> dict[str, datetime]:
    """The time of the newest change that has landed of each table."""
    rows = spark.sql(
        "select source_name, table_name, unix_micros(max(newest_change)) as at "
        f"from {RUNS} where newest_change is not null group by source_name, table_name"
    ).collect()
    return {
        f"{row.source_name}.{row.table_name}": EPOCH + timedelta(microseconds=row["at"])
        for row in rows
    }


def write_run(spark: SparkSession, landed: Iterable[dict[str, object]], run_id: str) -> None:
    """Write down, in one commit, what a run did with each table that had something new."""
    names = [entry.split()[0] for entry in TABLES[RUNS].split(", ")]
    now = datetime.now(UTC)
    rows = [{**row, "run_id": run_id, "at": now} for row in landed]
    if rows:
        frame = spark.createDataFrame(
            [tuple(row[name] for name in names) for row in rows], TABLES[RUNS]
        )
        frame.coalesce(1).write.format("delta").mode("append").saveAsTable(RUNS)


def confirm(spark: SparkSession, path: str, run_id: str) -> str:
    """Note that the file's newest version, which was set aside, is meant; gives `source.table`.

    Raises ConfigError when no such file is set aside.
    """
    newest = _newest_rows(spark).where("last.status = 'set_aside'")
    is_it = (F.col("file") == path) | F.startswith(F.col("file"), F.lit(f"{path.rstrip('/')}/"))
    found = newest.where(is_it).collect()
    if not found:
        aside = [row["file"] for row in newest.select("file").collect()]
        others = sorted(difflib.get_close_matches(path, aside, n=10, cutoff=0))
        raise ConfigError(
            f"No file '{path}' is set aside. "
            + (f"These are: {', '.join(others)}." if others else "No file at all is.")
        )
    _ask_for(spark, found, "confirmed", run_id)
    return ", ".join(sorted({f"{row['source_name']}.{row['table_name']}" for row in found}))


def replay(spark: SparkSession, feeds: Iterable[Feed], run_id: str) -> list[str]:
    """Note that files of these feeds with open dead letters are to be read again; gives them."""
    names = [feed.name for feed in feeds]
    place = ["source_name", "table_name", "file"]
    is_theirs = F.concat_ws(".", "source_name", "table_name").isin(*names)
    letters = spark.table(DEAD_LETTER).where(is_theirs & F.col("superseded_by").isNull())
    found = (
        _newest_rows(spark)
        .where("last.status in ('landed', 'set_aside')")
        .join(letters.select(*place).distinct(), place, "left_semi")
        .collect()
    )
    _ask_for(spark, found, "replayed", run_id)
    return sorted(row["file"] for row in found)


def supersede(spark: SparkSession, feed: Feed, plan: Plan) -> None:
    """The plan's files were read anew: what was refused of them before counts no longer."""
    if plan.supersedes:
        places = [(feed.source, feed.table, file.path, plan.load_id) for file in plan.files]
        columns = "source_name string, table_name string, file string, load_id bigint"
        # A MERGE takes no parameters.
        view = f"read_anew_in_{plan.load_id}"
        spark.createDataFrame(places, columns).createOrReplaceTempView(view)
        spark.sql(
            f"""
            merge into {DEAD_LETTER} as letter
            using {view} as anew
            on letter.source_name = anew.source_name and letter.table_name = anew.table_name
                and letter.file = anew.file
                and letter.superseded_by is null and letter.load_id < anew.load_id
            when matched then update set superseded_by = anew.load_id
            """
        )
        spark.catalog.dropTempView(view)


def _newest_rows(spark: SparkSession) -> DataFrame:
    """What the ledger says last of each file, in `last`."""
    return spark.sql(
        f"""
        select source_name, table_name, file, max_by(struct(*), struct(load_id, at)) as last
        from {LEDGER} group by source_name, table_name, file
        """
    )


def _ask_for(spark: SparkSession, found: Iterable[Row], status: str, run_id: str) -> None:
    names = [entry.split()[0] for entry in LEDGER_ROW.split(", ")]
    rows = []
    for row in found:
        again = {**row["last"].asDict(), "status": status, "run_id": run_id}
        again |= {"rows": None, "rejected": None, "skipped": None, "at": datetime.now(UTC)}
        rows.append(tuple(again[name] for name in names))
    _write(spark, rows)


def _row(
    feed: Feed,
    plan: Plan,
    file: LandedFile,
    status: str,
    counts: dict[str, int] | None,
    run_id: str,
) -> tuple[object, ...]:
    told = [None if status == "planned" else (counts or {}).get(name, 0) for name in COUNTS[:3]]
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
        told[0],
        told[1],
        run_id,
        datetime.now(UTC),
        told[2],
    )


def _write(spark: SparkSession, rows: list[tuple[object, ...]]) -> None:
    if rows:
        frame = spark.createDataFrame(rows, LEDGER_ROW)
        frame.coalesce(1).write.format("delta").mode("append").saveAsTable(LEDGER)
