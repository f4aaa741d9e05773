"""A run on a full disk ends.

Java may wait forever: after a failed write, Derby, the embedded metastore, waits for the lock of a
page that it holds itself.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.errors import TidemarkError

# With less space than this for so many seconds, nothing can be written.
_LEAST = 1 << 20
_SECONDS = 60
_SECONDS_BETWEEN_LOOKS = 5


@contextmanager
def noticed(folder: Path, end: Callable[[], None]) -> Iterator[None]:
    """Call `end`, which ends Spark, if the disk of a folder stays full during the block.

    Raises TidemarkError if the block then fails.
    """
    over, full = threading.Event(), threading.Event()

    def look() -> None:
        seconds = 0
        while not over.wait(_SECONDS_BETWEEN_LOOKS):
            is_full = shutil.disk_usage(folder).free < _LEAST
            seconds = seconds + _SECONDS_BETWEEN_LOOKS if is_full else 0
            if seconds >= _SECONDS:
                full.set()
                end()
                return

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    except Exception as error:
        if full.is_set():
            raise TidemarkError(
                f"The disk of {folder} has had less than 1 MB of free space for a minute, so Spark "
                "was stopped. Free some space, then run the command again: it continues where "
                "this one stopped."
            ) from error
        raise
    finally:
        over.set()
