"""What runs tell: names from outside are shown, and do nothing."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.context import exceptions_jinja
from dbt.events.types import JinjaLogInfo
from dbt_common.events.event_manager_client import get_event_manager
from dbt_common.events.functions import fire_event

from tests.python.test_feeds import declared
from tidemark import report
from tidemark.dbt_plugin import dbt
from tidemark.ingest.files import LandedFile
from tidemark.ingest.landed import Landed, Outcome
from tidemark.ingest.ledger import COUNTS, Plan
from tidemark.reasons import Why

NASTY = "a\n2026-01-01T00:00:00Z r Landed 9 rows\x1b[2J\u202e.csv"
SHOWN = r"a\n2026-01-01T00:00:00Z r Landed 9 rows\x1b[2J\u202e.csv"


def test_what_a_run_says_of_names_and_reasons_is_one_line_each() -> None:
    outcome = Outcome(set_aside={NASTY: f"not {NASTY}"}, new_columns=[f"{NASTY} string"])
    landed = Landed(declared(), outcome=outcome)
    landed.notes.append(Why.WISH_WITHOUT_FILE(files=NASTY))
    landed.failure = f"Spark says\n  {NASTY}"
    *lines, failure = report.remarks([landed])
    assert len(lines) == 3
    assert all(SHOWN in line and line.isprintable() for line in lines)
    # Spark's messages have lines of their own.
    assert "\x1b" not in failure
    assert failure.startswith("shop.orders failed: Spark says\n  a\n")


def test_a_run_tells_only_some_of_many_remarks() -> None:
    landed = Landed(declared())
    landed.notes += [Why.WISH_WITHOUT_FILE(files=str(number)) for number in range(12)]
    *lines, last = report.of_table(landed)
    assert len(lines) == 10
    assert last == "shop.orders: and 2 more remarks"


def test_a_run_says_which_command_shows_why_rows_and_files_were_refused() -> None:
    none = dict.fromkeys(COUNTS, 0)
    outcome = Outcome(counts={"a": none | {"rows": 2}}, set_aside={})
    file = LandedFile(datetime(2026, 11, 23, tzinfo=UTC), "a", "changes", 1, datetime.now(UTC))
    landed = Landed(declared(), plan=Plan(1, (file, file)), outcome=outcome)
    outcome.counts["a"]["rejected"] = 1
    assert report.one_line([landed]).endswith(
        " 1 row went to tidemark.dead_letter. To see why: tidemark report"
    )
    outcome.set_aside["b.csv"] = "no"
    assert report.one_line([landed]).endswith(
        " 1 row went to tidemark.dead_letter. Set aside 1 file: see tidemark.dead_letter. "
        "To see why: tidemark report"
    )
    outcome.counts["a"]["rejected"] = 0
    outcome.set_aside.clear()
    assert "report" not in report.one_line([landed])


def test_the_log_has_a_line_for_each_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LAKE", str(tmp_path / "lake"))
    report.log("a\nb", "one\rtwo\x0cthree\nfo\udce9ur")
    lines = (tmp_path / "lake" / "tidemark.log").read_text().splitlines()
    assert [line.partition("Z ")[2] for line in lines] == [
        r"a\nb one\rtwo\x0cthree",
        r"a\nb fo\xe9ur",
    ]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-1, "0 s"),
        (119.4, "119 s"),
        (120, "2 min"),
        (7200, "2 h"),
        (47.9 * 3600, "47 h"),
        (2e5, "2 d"),
    ],
)
def test_a_length_of_time_has_one_unit(seconds: float, told: str) -> None:
    assert report.span_of(timedelta(seconds=seconds)) == told


def test_a_build_counts_models_and_tests_but_no_hooks() -> None:
    def one(kind: str, status: str) -> SimpleNamespace:
        node = SimpleNamespace(resource_type=kind, name="x", original_file_path="tests/x.sql")
        return SimpleNamespace(node=node, status=status, failures=2)

    results = [one("model", "success"), one("operation", "success"), one("test", "pass")]
    assert list(report.built(results, 1.2)) == ["1 model built, 1 test passed in 1 s."]
    failed = ["error", "fail", "partial success", "runtime error"]
    (line,) = report.built([one("model", status) for status in failed], 1.2)
    assert line == "4 nodes failed in 1 s."
    assert list(report.built([*results, one("test", "warn")], 1.2)) == [
        "1 model built, 1 test passed, 1 test warned in 1 s.",
        "Warning: x found 2 rows (tests/x.sql).",
    ]


def test_the_table_of_a_run_fits_a_screen() -> None:
    none = dict.fromkeys(COUNTS, 0)
    few, every = none | {"rows": 123, "inserted": 123}, dict.fromkeys(COUNTS, 1_234_567)
    for counts, last in ((few, "newest change"), (every, "set aside")):
        at = datetime(2026, 11, 23, tzinfo=UTC)
        outcome = Outcome(counts={"a": counts}, set_aside={"b.csv": "no"}, newest_change=at)
        entry = Landed(declared(), outcome=outcome, seconds=12.3)
        heading, *_ = lines = report.table([entry]).splitlines()
        assert heading.rstrip().endswith(last)
        assert max(map(len, lines)) <= 100
    assert report.table([]) == ""


def test_a_table_for_a_person_has_no_empty_columns_and_fits_a_screen() -> None:
    columns: dict[str, list[Any]] = {"table": ["a", "b"], "new files": [0, 0], "lag": ["", "2 h"]}

    def heading(newest: str) -> list[str]:
        shown = report.fitting({**columns, "newest": [newest, newest]}, ["newest"])
        return shown.splitlines()[0].split()

    assert heading("x" * 80) == ["table", "lag", "newest"]
    assert heading("x" * 90) == ["table", "lag"]


def test_a_warning_of_a_macro_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(get_event_manager(), "callbacks", [dbt._warning(told.append)])
    for text in ("begins at 2026", "begins at 2026", "begins at 2027"):
        exceptions_jinja.warn(text)
    fire_event(JinjaLogInfo(msg="a log line"))
    assert told == ["begins at 2026", "begins at 2027"]
