"""`tidemark watch`: a run whenever files arrive.

Each run is a process of its own, as from cron: it takes the lock, ends its session, and gives its
memory back. Python's fork server has imported dbt and PySpark for it, which saves seconds, and
`tidemark up` keeps Spark.
"""

import atexit
import multiprocessing
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType

from tidemark import cli, paths
from tidemark.errors import ConfigError, SetupError
from tidemark.spark import warm

# A file that is being written changes between two looks.
_BETWEEN_LOOKS = 2.0
_RETRY_AFTER = 60.0
# What each run needs. Only imports: a forked process has none of the threads of its parent.
_IMPORTED = (
    *("dbt.cli.main", "dbt.adapters.spark", "deltalake", "pandas", "pyarrow.parquet"),
    *("pyspark.sql.connect.session", "tidemark.dbt_plugin.dbt", "tidemark.runs"),
)


def watch() -> None:
    """Run whenever the landing folder has changed and is quiet, until SIGINT or SIGTERM.

    A run that failed is tried again after a minute, or when files arrive. Raises ConfigError if the
    landing folder is not local, and SetupError if Spark does not start.
    """
    if "://" in paths.landing():
        raise ConfigError(
            "tidemark watch needs a local landing folder. For a store such as S3, start tidemark "
            "run on a schedule, or by the store's events (docs/targets/aws.md)."
        )
    folder = paths.landing_dir()
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(list(_IMPORTED))

    def done(*arguments: str) -> bool:
        process = processes.Process(target=_perform, args=(arguments,))
        process.start()
        try:
            process.join()
        except KeyboardInterrupt:
            process.join()
            raise
        return process.exitcode == 0

    def run() -> bool:
        # Spark may have died since the last run.
        return (warm.running() is not None or done("up")) and done("run")

    before = signal.signal(signal.SIGTERM, _stop)
    try:
        if not done("up"):
            raise SetupError("Spark did not start, so nothing is watched.")
        print(f"Watching {folder}")
        built, last, retry_at = 0, 0, float("inf")
        while True:
            now = hash(tuple(paths.states(str(folder))))
            if (now == last != built) or time.monotonic() >= retry_at:
                built = now
                retry_at = float("inf") if run() else time.monotonic() + _RETRY_AFTER
            last = now
            time.sleep(_BETWEEN_LOOKS)
    except KeyboardInterrupt:
        print("Stopped watching. Spark is still up: tidemark down")
    finally:
        signal.signal(signal.SIGTERM, before)


def _perform(arguments: Sequence[str]) -> None:
    # The watching process decides about the end: a run that has begun is finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = cli.main(arguments)
    # Locks and sessions end by these, which a process of multiprocessing skips.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.exit(code)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
