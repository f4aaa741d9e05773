"""One writer per lake that several machines reach: a lease in a table of the lake itself.

The embedded lake needs none: there the lock file, which the kernel frees, does better (lock.py).
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

from tidemark import paths
from tidemark.errors import LakeBusyError
from tidemark.ingest import books
from tidemark.spark import lock, session

TABLE = f"{books.SCHEMA}.lease"
SECONDS_VARIABLE = "TIDEMARK_LEASE_SECONDS"
_ASKED_EACH = 2
# A short run takes the lease and gives it back.
_TIDY_EACH, _COMMITS_OF_A_RUN = 100, 2


@contextmanager
def held(spark: SparkSession) -> Iterator[None]:
    """While in here, no other run writes to the lake.

    Waits for TIDEMARK_WAIT_SECONDS (default 600) while another one does and says who; then raises
    LakeBusyError, as it does at the end when the lease was lost meanwhile. Where this process has
    the lake's lock file, or the lease already, it does nothing. The lease is renewed meanwhile,
    and given back at the end.
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
            with suppress(Exception):  # it runs out by itself
                _take(spark, holder, seconds=0)
                _tidy(spark)
        if lost:
            raise LakeBusyError(
                f"{lost[0]} took the lake while this run was at work: the lease could not be "
                f"renewed in time. Run again, and set {SECONDS_VARIABLE} higher."
            )


# Held by this process; a hook of dbt may ask within a run that has it.
_mine = threading.Lock()


def _seconds() -> int:
    """How long a lease lasts that is not renewed: as long as a killed run holds up the next."""
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
        with suppress(PySparkException):  # another run may have been first
            session.create_table(
                spark,
                TABLE,
                "holder string, until timestamp",
                "tblproperties (delta.logRetentionDuration = 'interval 7 days')",
            )
    wait_seconds = lock.wait_seconds()
    deadline = time.monotonic() + wait_seconds
    announced = ""
    while other := _take(spark, holder, _seconds()):
        if time.monotonic() >= deadline:
            raise LakeBusyError(
                f"The lake is in use by {other}. Try again when it is done, or wait longer: "
                f"{lock.WAIT_VARIABLE} is {wait_seconds:g}. A run that was killed keeps it for "
                f"{_seconds()} seconds."
            )
        if other != announced:
            print(f"Waiting for {other}, which uses the lake", file=sys.stderr)
            announced = other
        time.sleep(_ASKED_EACH)


def _take(spark: SparkSession, holder: str, seconds: int) -> str:
    """Take, or renew, the lease for some seconds from now; gives who else has it, or ''.

    The clock is that of Spark's driver.
    """
    wish = spark.createDataFrame([(holder, seconds)], "holder string, seconds int")
    # A MERGE takes no parameters.
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
        # Somebody else's commit came first: who, is read below.
        if "CONCURRENT" not in str(error).upper():
            raise
    return str(spark.table(TABLE).collect()[0]["holder"]).removeprefix(holder)


def _tidy(spark: SparkSession) -> None:
    """Now and then delete the files of older versions: each renewal leaves one."""
    newest = spark.sql(f"describe history {TABLE} limit 1").collect()[0]["version"]
    if newest % _TIDY_EACH < _COMMITS_OF_A_RUN:
        spark.sql(f"vacuum {TABLE}")


def _renew(spark: SparkSession, holder: str, done: threading.Event, lost: list[str]) -> None:
    each, took = _seconds() / 10, 0.0
    while not lost and not done.wait(max(0, each - took)):
        asked_at = time.monotonic()
        try:
            lost += filter(None, [_take(spark, holder, _seconds())])
            took = time.monotonic() - asked_at
        except Exception as error:  # the next one may get through
            print(f"The lease of the lake was not renewed: {error}", file=sys.stderr)
