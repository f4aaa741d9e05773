"""docs/published_cases.md and the scenarios with `published` say the same."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import published_cases, scenario
from tests.published_cases import PAGE, is_same
from tests.scenario import Published, Scenario

CASES = published_cases.cases()
EXAMPLE = next(one for one, _ in CASES if one.name == "published_torture_out_of_order")
CURRENT = ["42 ACTIVE Antalya"]
HISTORY = ["42 PENDING Antalya 10-12", "42 ACTIVE Antalya 12-"]


def test_the_page_has_the_table_of_the_scenarios() -> None:
    written = published_cases.page()
    assert PAGE.read_text() == written, "run .venv/bin/python -m tests.published_cases"
    assert all(f"(../tests/scenarios/{one.name})" in written for one, _ in CASES)


def test_the_page_names_every_source() -> None:
    on_the_page = re.findall(r"^\| `(\w+)` \| .* \|$", PAGE.read_text(), re.MULTILINE)
    assert sorted(on_the_page) == sorted({published.source for _, published in CASES})


def test_published_scenarios_are_named_after_their_source() -> None:
    named = {one.name for one in scenario.load() if one.name.startswith("published_")}
    assert named == {one.name for one, _ in CASES}
    for one, published in CASES:
        assert one.name.startswith(f"published_{published.source.split('_')[0]}_")


@pytest.mark.parametrize(("one", "published"), CASES, ids=[one.name for one, _ in CASES])
def test_a_difference_is_explained(one: Scenario, published: Published) -> None:
    assert is_same(one, published) or published.note


@pytest.mark.parametrize(
    ("theirs", "same"),
    [
        ({"current": CURRENT, "history": HISTORY}, True),
        ({"history": HISTORY[::-1]}, True),
        ({"history": []}, False),
        ({"history": HISTORY[:1]}, False),
        ({"history": [*HISTORY, HISTORY[0]]}, False),
        ({"history": [HISTORY[0], "42 ACTIVE Antalya 11-"]}, False),
        ({"history": [HISTORY[0], "42 ACTIVE Antalya 12-20"]}, False),
        ({"current": ["42 PENDING Antalya"], "history": HISTORY}, False),
        ({"current": CURRENT, "instead": "It fails."}, False),
    ],
)
def test_rows_are_compared(theirs: dict[str, Any], same: bool) -> None:
    assert EXAMPLE.published
    assert is_same(EXAMPLE, replace(EXAMPLE.published, theirs=theirs)) is same


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("theirs: {}", "theirs is empty"),
        ("theirs: {rows: [1 a]}", "theirs has no .*rows"),
        ("theirs: {history: [1 a 10 20]}", "a version is `1 alice"),
        ("theirs: {current: [1 a]}\n  unit: day", "second or hour, not day"),
        ("theirs: {current: [1 a]}\n  because: of this", "because"),
        ("note: no rows", "theirs"),
    ],
)
def test_what_is_not_well_formed_is_refused(tmp_path: Path, given: str, message: str) -> None:
    file = tmp_path / "scenario.yml"
    published = f"published:\n  source: s\n  case: c\n  columns: {{x: value}}\n  {given}\n"
    file.write_text(f"rule: r\nwhy: w\n{published}")
    with pytest.raises(ValueError, match=f"(?s)scenario.yml: .*{message}"):
        scenario.load_all(Scenario, [file])
