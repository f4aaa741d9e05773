"""What this process may use of its machine: a container may have less than the machine has."""

import os
from pathlib import Path

_CONTAINER = Path("/sys/fs/cgroup")


def cores(container: Path = _CONTAINER) -> int:
    """Processor cores, one at least."""
    # macOS has no such call.
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
    """Bytes of memory, other programs' share included."""
    limits = [
        *_numbers(container / "memory.max"),
        *_numbers(container / "memory" / "memory.limit_in_bytes"),
    ]
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *limits])


def _numbers(file: Path) -> list[int]:
    """The numbers in a file, none when it is not there or begins with the word `max`."""
    try:
        return [int(word) for word in file.read_text().split()]
    except (OSError, ValueError):
        return []
