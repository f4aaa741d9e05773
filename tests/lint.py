"""Checks that no linter has: run by `make lint`, one line for each finding."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from compat import __main__ as packages
from tests.project import REPO


def unknown_expectations() -> Iterator[str]:
    """A dbt_expectations test that the stand-in lacks would only be found at run time."""
    for name in packages.missing_tests(REPO):
        yield f"{name} is used in YAML, but compat/dbt_expectations has no such test"


def undescribed() -> Iterator[str]:
    """Every macro and every model stands in a YAML file, with a description."""
    yaml_text = "\n".join(
        file.read_text() for folder in ("models", "macros") for file in _files(folder, "*.yml")
    )
    described = set(re.findall(r"- name: (\S+)\n\s+description: \S", yaml_text))
    for file in [*_files("models", "*.sql"), *_files("models", "*.py")]:
        # Versions of a model share its description.
        if re.sub(r"_v[0-9]+$", "", file.stem) not in described:
            yield f"{file.relative_to(REPO)}: the model has no description in YAML"
    for file in _files("macros", "*.sql"):
        public = re.findall(r"{%-? macro ([a-z]\w*)\(", file.read_text())
        for name in public:
            if name not in described:
                yield f"{file.relative_to(REPO)}: macro {name} has no description in YAML"


def backslashes_in_sql() -> Iterator[str]:
    """A setting of Spark's, and dbt-glue without our plugin, change what a backslash means."""
    for file in _sql_files():
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if "\\" in line:
                yield f"{file.relative_to(REPO)}:{number}: a backslash in SQL; use [0-9], chr()"


def doubled_quotes_in_sql() -> Iterator[str]:
    """Spark 4 reads 'it''s' as it's, Spark 3.5 as its: in a view, the reader's version decides."""
    for file in _sql_files():
        text = re.sub(r"{#.*?#}", _blank, file.read_text(), flags=re.DOTALL)
        text = re.sub(r"(?m)^\s*--.*$", _blank, text)
        for literal in re.finditer(r"""\"[^"]*"|'(?:[^']|'')*'""", text):
            if literal[0][0] == "'" and "''" in literal[0][1:-1]:
                number = text.count("\n", 0, literal.start()) + 1
                yield f"{file.relative_to(REPO)}:{number}: a doubled quote in SQL; use chr(39)"


def _blank(found: re.Match[str]) -> str:
    """Nothing but the line breaks, so that the lines keep their numbers."""
    return "\n" * found[0].count("\n")


def _sql_files() -> Iterator[Path]:
    for folder in ("models", "macros", "snapshots", "tests/generic", "tests/singular"):
        yield from _files(folder, "*.sql")


def _files(folder: str, pattern: str) -> list[Path]:
    return sorted((REPO / folder).rglob(pattern))


if __name__ == "__main__":
    findings = [*unknown_expectations(), *undescribed()]
    findings += [*backslashes_in_sql(), *doubled_quotes_in_sql()]
    print("\n".join(findings), file=sys.stderr)
    sys.exit(bool(findings))
