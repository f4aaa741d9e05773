"""Which file is what, and in which order files apply."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.python.test_feeds import declared
from tidemark import files, storage
from tidemark.errors import ConfigError


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
    by_offset = files.EPOCH + timedelta(microseconds=7)
    assert found.time == (found.modified if is_written else by_offset)


def test_a_folder_that_is_not_there_holds_no_files(tmp_path: Path) -> None:
    assert files.listed(storage.at(str(tmp_path)), declared()) == []


def test_a_link_out_of_the_landing_folder_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "landing"
    (root / "shop").mkdir(parents=True)
    (root / "shop" / "orders").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="leaves the landing folder"):
        files.listed(storage.at(str(root)), declared())
