"""The sample files are what their generators make, and every domain can be toured."""

import importlib
import io
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.project import REPO
from tidemark import demo

EXAMPLES = REPO / "examples"
DOMAINS = sorted(file.stem for file in (EXAMPLES / "generators").glob("[a-z]*.py"))


def content(path: str, data: bytes) -> Any:
    """A Parquet file's bytes are another matter with each version of pyarrow; its rows are not."""
    return pyarrow.parquet.read_table(io.BytesIO(data)) if path.endswith(".parquet") else data


@pytest.mark.parametrize("domain", DOMAINS)
def test_samples_are_what_the_generator_makes(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    made = importlib.import_module(f"generators.{domain}").days()
    folder = EXAMPLES / domain
    there = {
        (int(file.relative_to(folder).parts[0].removeprefix("day")), path): content(
            path, file.read_bytes()
        )
        for file in folder.glob("day*/**/*")
        if file.is_file() and (path := str(Path(*file.relative_to(folder).parts[1:])))
    }
    assert there == {
        (day, path): content(path, made[day][path]) for day in made for path in made[day]
    }


def test_every_domain_has_a_tour_of_all_its_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBT_PROJECT_DIR", str(REPO))
    tours = demo.tours()
    assert sorted(tours) == DOMAINS
    for domain, tour in tours.items():
        assert {f"day{day}" for day in tour.days} == {
            folder.name for folder in (EXAMPLES / domain).glob("day*")
        }
        assert f"tidemark demo {domain}" in (
            REPO / "examples" / "README.md"
        ).read_text() or domain in (
            "insurance",
            "inventory",
            "erp",
        )
