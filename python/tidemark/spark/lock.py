"""One writer per lake, because the embedded metastore and landing allow only one process."""

import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from tidemark import paths
from tidemark.errors import LakeBusyError, printable
from tidemark.shared import shared

WAIT_VARIABLE = "TIDEMARK_WAIT_SECONDS"

# The kernel locks per open file, so two threads of this process would block each other.
_one_thread = threading.Lock()


class NotNeededError(Exception):
    """What `until` of `hold` asked for has come while the process waited."""


def hold(lake: Path, name: str = "lock", until: Callable[[], object] = lambda: None) -> int:
    """Lock the lake for this process. Returns at once if it already has a lock.

    Returns the file descriptor of the lock file `name`. A child process that inherits it keeps the
    lock after this process ends. Waits up to TIDEMARK_WAIT_SECONDS (default 600) for another holder
    and prints its name, then raises LakeBusyError. Raises NotNeededError once `until` gives
    something.
    """
    with _one_thread:
        if lake not in shared.locks:
            shared.locks[lake] = _locked_file(lake, name, until)
        return shared.locks[lake].fileno()


def wait_seconds() -> float:
    """How long to wait for another holder."""
    return float(os.environ.get(WAIT_VARIABLE, "600"))


def is_held(lake: Path) -> bool:
    """Whether this process holds the lock."""
    return lake in shared.locks


def hand_over(lake: Path, process: int, command: str) -> None:
    """Hand the lock over to a child process that has inherited it."""
    with _one_thread:
        file = shared.locks.pop(lake)
        _write_holder(file, process, command)
        file.close()


def left_behind(lake: Path) -> str:
    """The last holder of this process's lock, if it ended without `done`, or ''."""
    return shared.holders_before.get(lake, "")


def done(lake: Path) -> None:
    """Release the lock, and note that its holder ended as it should."""
    with _one_thread:
        file = shared.locks.pop(lake, None)
        if file:
            file.truncate(0)
            file.close()


def _locked_file(lake: Path, name: str, until: Callable[[], object]) -> IO[str]:
    file = paths.opened_in_lake(name, "a+", lake=lake)
    deadline = time.monotonic() + wait_seconds()
    attempts = 0
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if until():
                raise NotNeededError from None
            if time.monotonic() >= deadline:
                raise LakeBusyError(
                    f"The lake {lake} is in use by {_holder(file)}. Try again later, "
                    f"or increase {WAIT_VARIABLE} ({wait_seconds():g})."
                ) from None
            attempts += 1
            # At the first attempt, the holder may not have written its name yet.
            if attempts == 2:
                print(f"Waiting for {_holder(file)}, which uses {lake}", file=sys.stderr)
            time.sleep(0.2)
    file.seek(0)
    shared.holders_before[lake] = _holder(file) if file.read() else ""
    _write_holder(file, os.getpid(), own_command())
    return file


def own_command() -> str:
    """This process's command, such as `tidemark run`, without its arguments.

    Others can read it, and arguments may contain passwords (`--conf`) or values of rows
    (`tidemark sql`).
    """
    name, *arguments = [Path(sys.argv[0]).name, *sys.argv[1:]]
    is_known = name in ("tidemark", "dbt") and arguments and arguments[0].isalpha()
    return printable(f"{name} {arguments[0]}" if is_known else name)[:200]


def _write_holder(file: IO[str], process: int, command: str) -> None:
    file.seek(0)
    file.truncate()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    json.dump({"process": process, "command": command, "since": now}, file)
    file.flush()


def _holder(file: IO[str]) -> str:
    file.seek(0)
    try:
        holder = json.loads(file.read())
    except ValueError:
        return "another process"
    return f"process {holder['process']} (`{holder['command']}`, since {holder['since']})"
