"""Which file is what, and in which order files apply."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from tests.python.test_feeds import declared
from tidemark import storage
from tidemark.errors import ConfigError, SetupError
from tidemark.ingest import files


def listed(root: Path, *paths: str, **feed: str) -> list[tuple[str, str]]:
    for path in paths:
        file = root / "shop/orders" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    found = files.listed(storage.at(str(root)), declared(**feed))
    return [(file.path.removeprefix("shop/orders/"), file.kind) for file in found]


def test_change_files_order_by_the_time_in_their_name_not_by_folder(tmp_path: Path) -> None:
    assert listed(
        tmp_path,
        "2024/02/01/20240201-000000001.csv",
        "01/12/2023/20231201-100000000.csv",
        "20240131-235959999.csv.gz",
    ) == [
        ("01/12/2023/20231201-100000000.csv", "changes"),
        ("20240131-235959999.csv.gz", "changes"),
        ("2024/02/01/20240201-000000001.csv", "changes"),
    ]


def test_the_digits_after_the_seconds_are_a_fraction(tmp_path: Path) -> None:
    names = [
        name for name, _ in listed(tmp_path, "20240101-1000009.csv", "20240101-1000000999.csv")
    ]
    assert names == ["20240101-1000000999.csv", "20240101-1000009.csv"]


@pytest.mark.parametrize(
    "name",
    ["LOAD00000001.csv", "LOAD0000000A.csv.gz", "SEGMENT12_LOAD00000001.csv", "p1/LOAD1.csv"],
)
def test_load_files(tmp_path: Path, name: str) -> None:
    assert listed(tmp_path, name) == [(name, "load")]


@pytest.mark.parametrize(
    "name", ["notes.csv", "20241301-100000000.csv", "LOAD0000000G.csv", "a.bin"]
)
def test_a_name_that_dms_does_not_write_is_foreign(tmp_path: Path, name: str) -> None:
    assert listed(tmp_path, name) == [(name, "foreign")]


def test_side_files_are_passed_over(tmp_path: Path) -> None:
    side = ["_SUCCESS", ".LOAD00000001.csv.crc", "LOAD00000001.dfm", "awsdms_status/LOAD1.csv"]
    assert listed(tmp_path, "LOAD00000001.csv", *side) == [("LOAD00000001.csv", "load")]


@pytest.mark.parametrize(("sequence", "is_written"), [("source", False), ("offset", True)])
def test_an_offset_is_a_time_only_where_it_orders_alone(
    tmp_path: Path, sequence: str, is_written: bool
) -> None:
    file = tmp_path / "shop/orders/orders+0+0000000007.json"
    file.parent.mkdir(parents=True)
    file.write_text("x")
    feed = declared(format="debezium", sequence=sequence)
    (found,) = files.listed(storage.at(str(tmp_path)), feed)
    by_offset = storage.EPOCH + timedelta(microseconds=7)
    assert found.time == (found.modified if is_written else by_offset)


@pytest.mark.parametrize(
    ("format_", "path", "told"),
    [
        ("dms", b"caf\xe9.txt", "caf\\xe9.txt"),
        ("dms", b"p\xe9/LOAD00000001.csv", "p\\xe9/LOAD00000001.csv"),
        ("extract", b"caf\xe9.csv", "caf\\xe9.csv"),
        ("extract", "caf\xe9.csv".encode(), None),
        ("extract", b"a\n\x1b[2J.csv", None),
        ("debezium", b"\xff.json", "\\xff.json"),
    ],
)
def test_a_name_that_is_not_utf_8_is_told_in_text(
    tmp_path: Path, format_: str, path: bytes, told: str | None
) -> None:
    """A text is kept as it is, whatever it does to a terminal."""
    assert listed(tmp_path, os.fsdecode(path), format=format_) == [
        (told, "misnamed") if told else (path.decode(), "load")
    ]


def test_a_folder_whose_name_is_not_utf_8_waits_for_no_marker(tmp_path: Path) -> None:
    settings = {"format": "extract", "complete_marker": "_SUCCESS"}
    folder = os.fsdecode(b"caf\xe9")
    assert listed(tmp_path, f"{folder}/a.csv", "b/b.csv", **settings) == [
        ("caf\\xe9/a.csv", "misnamed")
    ]


def test_a_landing_folder_whose_name_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"caf\xe9")
    root.mkdir()
    with pytest.raises(SetupError, match=r"caf\\xe9 is not UTF-8"):
        storage.at(str(root)).require()


def test_a_folder_that_is_not_there_holds_no_files(tmp_path: Path) -> None:
    assert files.listed(storage.at(str(tmp_path)), declared()) == []


def test_a_link_out_of_the_landing_folder_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "landing"
    (root / "shop").mkdir(parents=True)
    (root / "shop" / "orders").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="leads out of the landing folder"):
        files.listed(storage.at(str(root)), declared())
