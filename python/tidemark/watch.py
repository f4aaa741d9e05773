"""`tidemark watch`: a run whenever files arrive.

Each run is a process of its own, as from cron: it takes the lock, ends its session, and gives its
memory back. It is a fork of the process of `tidemark up` that has imported dbt and PySpark.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from types import FrameType

from tidemark import paths
from tidemark.errors import ConfigError, SetupError
from tidemark.spark import ready, warm

# A file that is being written changes between two looks.
_BETWEEN_LOOKS = 2.0
_RETRY_AFTER = 60.0


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

    def run() -> bool:
        # Spark may have died since the last run.
        return (warm.running() is not None or _done("up")) and _done("run")

    before = signal.signal(signal.SIGTERM, _stop)
    try:
        if not _done("up"):
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


def _done(*arguments: str) -> bool:
    """Run a command to its end, also if this process is interrupted. Gives whether it succeeded."""
    # `up` starts what forks for the others.
    command = None if arguments == ("up",) else ready.begin(arguments)
    wait = partial(ready.end, command) if command else _begun(arguments).wait
    try:
        return wait() == 0
    except KeyboardInterrupt:
        wait()
        raise


def _begun(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    program = "import sys; sys.argv[0], sys.path[:1] = 'tidemark', []"
    program += "; from tidemark import cli; raise SystemExit(cli.main())"
    return subprocess.Popen([sys.executable, "-c", program, *arguments], start_new_session=True)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
