"""What is known of the landing folder before Spark starts."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemark import runs
from tidemark.ingest import ledger, planning
from tidemark.spark import lock


def test_new_bytes_are_those_of_large_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_LANDING", str(tmp_path))
    assert planning.new_bytes(None) == []
    for table, megabytes in (("orders", 3), ("orders", 1), ("items", 2)):
        folder = tmp_path / "shop" / table
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"LOAD{megabytes}.parquet").write_bytes(bytes(megabytes << 20))
        (folder / "small.csv").write_text("1\n")
    assert sorted(planning.new_bytes(None)) == [2 << 20, 4 << 20]


def test_a_folder_of_no_feed_that_cannot_be_read_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Such as lost+found, where the landing folder is a disk of its own. Root could read it.
    def refuse(place: str) -> None:
        raise PermissionError(place)

    monkeypatch.setenv("TIDEMARK_LANDING", str(tmp_path))
    monkeypatch.setattr("os.scandir", refuse)
    assert planning.new_bytes(None) == []


def test_a_job_of_a_host_takes_no_lock_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With the lock, Tidemark's own tables would be looked for in the job's folder of logs.
    monkeypatch.setenv("TIDEMARK_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("TIDEMARK_LANDING", str(tmp_path))
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert runs._new_bytes() == []
    assert not lock.is_held(tmp_path / "lake")


def test_a_retraction_ends_the_wish_to_read_a_file_that_is_gone() -> None:
    """The remark about the file stayed, and so the table was never up to date."""
    history = ledger._History()
    row = {"size": 3, "modified": datetime(2024, 1, 1, tzinfo=UTC), "file": "a/b.csv", "load_id": 1}
    row |= {"kind": "changes", "file_at": row["modified"]}
    history.add({**row, "status": "landed"})
    history.add({**row, "status": "replayed"})
    assert history.wished
    history.add({**row, "status": "retracted"})
    assert not history.wished
    for status in ("set_aside", "confirmed", "set_aside"):
        history.add({**row, "status": status})
    assert not history.wished
