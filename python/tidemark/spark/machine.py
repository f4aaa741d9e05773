"""The cores and memory available to this process, which a container may limit, and threads."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

_CONTAINER = Path("/sys/fs/cgroup")

T = TypeVar("T")
R = TypeVar("R")


def cores(container: Path = _CONTAINER) -> int:
    """The number of processor cores, at least one."""
    # macOS does not have this call.
    has_call = hasattr(os, "sched_getaffinity")
    found = len(os.sched_getaffinity(0)) if has_call else os.cpu_count() or 1
    limit = _numbers(container / "cpu.max") or [
        *_numbers(container / "cpu" / "cpu.cfs_quota_us"),
        *_numbers(container / "cpu" / "cpu.cfs_period_us"),
    ]
    if len(limit) < 2 or limit[0] <= 0:
        return found
    quota, period = limit
    return max(1, min(found, quota // period))


def memory(container: Path = _CONTAINER) -> int:
    """The memory in bytes, including that used by other programs."""
    limits = [
        *_numbers(container / "memory.max"),
        *_numbers(container / "memory" / "memory.limit_in_bytes"),
    ]
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *limits])


def side_by_side(do: Callable[[T], R], each: Iterable[T]) -> list[R]:
    """What a function gives for each of these, in their order, with a thread for each core."""
    with ThreadPoolExecutor(cores()) as threads:
        return list(threads.map(do, each))


def _numbers(file: Path) -> list[int]:
    """The numbers in a file. Empty if the file is missing or starts with `max`."""
    try:
        return [int(word) for word in file.read_text().split()]
    except (OSError, ValueError):
        return []
