"""One writer per lake that several machines share: a lease in a table of the lake.

The embedded target uses a lock file instead, which the kernel releases (lock.py).
"""

import getpass
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark import formats, paths
from tidemark.errors import LakeBusyError
from tidemark.ingest import books
from tidemark.spark import lock, session

TABLE = f"{books.SCHEMA}.lease"
SECONDS_VARIABLE = "TIDEMARK_LEASE_SECONDS"
_ASKED_EACH = 2
# A short run makes two commits: it acquires the lease and releases it.
_TIDY_EACH, _COMMITS_OF_A_RUN = 100, 2


@contextmanager
def held(spark: SparkSession) -> Iterator[None]:
    """Hold the lease of the lake within the block, so that no other run writes.

    Waits up to TIDEMARK_WAIT_SECONDS (default 600) for another holder and prints its name, then
    raises LakeBusyError. Renews the lease until the end, and raises LakeBusyError if it was lost.
    Does nothing if this process already has the lake's lock file or the lease.
    """
    if lock.is_held(paths.lake_dir()) or _mine.locked():
        yield
        return
    with _mine:
        holder = _name()
        _acquire(spark, holder)
        done, lost = threading.Event(), list[str]()
        renewing = threading.Thread(target=_renew, args=(spark, holder, done, lost), daemon=True)
        renewing.start()
        try:
            yield
        finally:
            done.set()
            renewing.join()
            with suppress(Exception):  # it expires anyway
                _take(spark, holder, seconds=0)
                _tidy(spark)
        if lost:
            raise LakeBusyError(
                f"{lost[0]} took over the lake during this run, because the lease could not be "
                f"renewed in time. Run again with a higher {SECONDS_VARIABLE}."
            )


# Held by this process. dbt's hook may ask for the lease in a run that already has it.
_mine = threading.Lock()


def _seconds() -> int:
    """How long a lease lasts without renewal, and thus how long a killed run blocks the next."""
    return int(os.environ.get(SECONDS_VARIABLE, "300"))


def _name() -> str:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return (
        f"{getpass.getuser()}@{socket.gethostname()}, process {os.getpid()} "
        f"(`{lock.own_command()}`, since {now})"
    )


def _acquire(spark: SparkSession, holder: str) -> None:
    spark.sql(f"create schema if not exists {books.SCHEMA}")
    if not spark.catalog.tableExists(TABLE):
        with suppress(PySparkException):  # another run may have created it
            session.create_table(
                spark,
                TABLE,
                "holder string, until timestamp",
                "tblproperties (delta.logRetentionDuration = 'interval 7 days')",
                adopts=True,
            )
    wait_seconds = lock.wait_seconds()
    deadline = time.monotonic() + wait_seconds
    announced = ""
    while other := _take(spark, holder, _seconds()):
        if time.monotonic() >= deadline:
            raise LakeBusyError(
                f"The lake is in use by {other}. Try again later, or increase "
                f"{lock.WAIT_VARIABLE} ({wait_seconds:g}). The lease of a killed run expires after "
                f"{_seconds()} seconds."
            )
        if other != announced:
            print(f"Waiting for {other}, which uses the lake", file=sys.stderr)
            announced = other
        time.sleep(_ASKED_EACH)


def _take(spark: SparkSession, holder: str, seconds: int) -> str:
    """Acquire or renew the lease for some seconds. Returns the other holder, or ''.

    Uses the clock of Spark's driver.
    """
    wish = spark.createDataFrame([(holder, seconds)], "holder string, seconds int")
    # MERGE does not support parameters.
    wish.createOrReplaceTempView("wish_for_the_lease")
    try:
        spark.sql(
            f"""
            merge into {TABLE} as lease
            using (
                select
                    holder, current_timestamp() as now,
                    current_timestamp() + make_interval(0, 0, 0, 0, 0, 0, seconds) as until
                from wish_for_the_lease
            ) as new
            on true
            when matched and (lease.holder = new.holder or lease.until <= new.now)
                then update set holder = new.holder, until = new.until
            when not matched then insert (holder, until) values (new.holder, new.until)
            """
        )
    except PySparkException as error:
        # Another commit came first. The holder is read below.
        if "CONCURRENT" not in str(error).upper():
            raise
    return str(spark.table(TABLE).collect()[0]["holder"]).removeprefix(holder)


def _tidy(spark: SparkSession) -> None:
    """Occasionally delete the files of older versions, as each renewal leaves one."""
    format = formats.of_lake()
    newest = spark.sql(f"{format.versions(TABLE)} limit 1").collect()[0]["version"]
    # Iceberg's versions have random numbers, so there it is one run of so many on average.
    if newest % _TIDY_EACH < _COMMITS_OF_A_RUN:
        format.delete_old(spark, TABLE, None)


def _renew(spark: SparkSession, holder: str, done: threading.Event, lost: list[str]) -> None:
    each, took = _seconds() / 10, 0.0
    while not lost and not done.wait(max(0, each - took)):
        asked_at = time.monotonic()
        try:
            lost += filter(None, [_take(spark, holder, _seconds())])
            took = time.monotonic() - asked_at
        except Exception as error:  # the next renewal may succeed
            print(f"The lease of the lake was not renewed: {error}", file=sys.stderr)
