"""The documentation's links lead somewhere, and its settings are those that tests have."""

import re
from pathlib import Path

import pytest

from tests.e2e import debezium

REPO = Path(__file__).parents[2]
PAGES = [REPO / "README.md", REPO / "CONTRIBUTING.md", *sorted((REPO / "docs").rglob("*.md"))]
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """The names under which a page's headings are reached on GitHub."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for path, anchor in _LINK.findall(_CODE.sub("", page.read_text())):
        to = (page.parent / path).resolve() if path else page
        if not to.exists() or (anchor and to.suffix == ".md" and anchor not in _anchors(to)):
            broken.append(f"{path}#{anchor}")
    assert not broken


def test_the_page_shows_the_settings_of_debezium_that_are_tested() -> None:
    page = (REPO / "docs" / "point_it_at_your_database.md").read_text()
    shown = {**debezium.EXACT, **debezium.FLATTENED, **debezium.WITHOUT_SCHEMA}
    for name, value in debezium.EXACT.items():
        assert f"{name}={value}" in page
    assert [name for name in shown if name not in page] == []
