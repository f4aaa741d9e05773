"""docs/adapter_suites.md and tests/adapter/ say the same, and no suite is forgotten."""

import importlib
import inspect
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.project import REPO

PAGE = (REPO / "docs" / "adapter_suites.md").read_text()


def classes(module: str) -> Iterator[type]:
    """The classes that a module defines, as they stand in it."""
    imported = importlib.import_module(module)
    for item in vars(imported).values():
        if inspect.isclass(item) and item.__module__ == module:
            yield item


def reason(item: object, name: str) -> str | None:
    """The reason of an item's own mark, or of one of its cases'."""
    marks = list(vars(item).get("pytestmark", []))
    for mark in [mark for mark in marks if mark.name == "parametrize"]:
        marks += [inner for case in mark.args[1] for inner in getattr(case, "marks", [])]
    for mark in marks:
        if mark.name == name:
            return str(mark.kwargs["reason"])
    return None


def tried() -> Iterator[tuple[str, str, list[str]]]:
    """Each suite that is tried, what its marks say of it, and the reasons."""
    for file in sorted((REPO / "tests" / "adapter").glob("test_*.py")):
        for test in classes(f"tests.adapter.{file.stem}"):
            suite = test.__bases__[0].__name__
            failing = {
                name: why
                for name, method in vars(test).items()
                if inspect.isfunction(method) and (why := reason(method, "xfail"))
            }
            if why := reason(test, "skip"):
                yield suite, "skipped", [why]
            elif why := reason(test, "xfail"):
                yield suite, "fails", [why]
            elif failing:
                names = ", ".join(f"`{name}`" for name in failing)
                yield suite, f"passes but for {names}", list(failing.values())
            else:
                yield suite, "passes", []


def on_the_page() -> dict[str, tuple[str, str]]:
    """Each suite in the page's tables: what it says of it here, and why."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \| [^|]* \| ([^|]*) \|$", PAGE, re.MULTILINE)
    assert len({suite for suite, _, _ in rows}) == len(rows)
    return {suite: (here, why) for suite, here, why in rows}


def installed() -> Iterator[str]:
    """Each suite of the installed dbt-tests-adapter that has tests, but for folders left out."""
    spec = find_spec("dbt.tests.adapter")
    assert spec and spec.submodule_search_locations
    (root,) = spec.submodule_search_locations
    left_out = re.findall(r"^\| `(\w+)/` \|", PAGE, re.MULTILINE)
    assert left_out
    for file in sorted(Path(root).rglob("*.py")):
        place = file.relative_to(root).with_suffix("").parts
        if place[0] in left_out or place[-1] == "__init__":
            continue
        for suite in classes(".".join(("dbt.tests.adapter", *place))):
            has_tests = any(name.startswith("test") for name in dir(suite))
            if has_tests and not suite.__name__.startswith(("Test", "_")):
                yield suite.__name__


def test_the_page_says_of_each_suite_what_its_test_says() -> None:
    said = on_the_page()
    for suite, here, reasons in tried():
        assert suite in said, f"docs/adapter_suites.md has no line for {suite}"
        assert said[suite][0] == here, suite
        for why in reasons:
            assert why in said[suite][1], suite
    assert set(said) == {suite for suite, _, _ in tried()}


def test_every_suite_of_the_package_is_on_the_page() -> None:
    assert set(installed()) <= set(on_the_page())
