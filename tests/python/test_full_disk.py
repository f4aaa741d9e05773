"""What ends a run on a full disk, on a real one of 3 MB. Whole runs: tests/e2e/test_faults.py."""

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidemark.errors import TidemarkError
from tidemark.spark import full_disk


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(tmp_path)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a disk")
    monkeypatch.setattr(full_disk, "_SECONDS_BETWEEN_LOOKS", 0.05)
    monkeypatch.setattr(full_disk, "_SECONDS", 0.15)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def fill(disk: Path) -> Path:
    file = disk / "filler"
    file.write_bytes(bytes(5 << 19))
    return file


def test_a_disk_that_stays_full_ends_spark_and_then_the_run(disk: Path) -> None:
    fill(disk)
    ended = threading.Event()
    with (
        pytest.raises(TidemarkError, match="less than 1 MB of free space for a minute"),
        full_disk.noticed(disk, ended.set),
    ):
        assert ended.wait(10)
        raise ConnectionError("Spark is gone")


def test_a_disk_with_space_again_does_not(disk: Path) -> None:
    file = fill(disk)
    ended = threading.Event()
    with pytest.raises(ConnectionError), full_disk.noticed(disk, ended.set):
        file.unlink()
        assert not ended.wait(0.5)
        raise ConnectionError("something else")
    # Nobody looks any longer.
    fill(disk)
    assert not ended.wait(0.5)
