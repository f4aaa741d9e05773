"""`tidemark report`, `tidemark status --check` and notifications, over one lake that goes wrong."""

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.project import Project
from tidemark import cli, paths
from tidemark.ingest import books
from tidemark.spark import session

pytestmark = pytest.mark.functional

COLUMNS = {"id": "int", "n": "int"}
# As a name of a check, and of a folder.
HTML = "<img src=x onerror=alert(1)>"
FILE = "rep/t/20240101-100000000.csv"
APPENDS = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')"


def tidemark(project: Project, *arguments: str) -> int:
    with project.here():
        return cli.main(arguments)


class Page(HTMLParser):
    """The elements of a page, each with its attributes, and its text."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def rep(module_project: Callable[[], Project]) -> Project:
    project = module_project()
    project.add("rep.t", COLUMNS, "id", max_dead_letters=0, checks={HTML: "n > 0"})
    project.add("rep.s", COLUMNS, "id", strict=True)
    # Only its log is needed.
    for model in project.folder.glob("models/*/rep/*rep__s.sql"):
        model.unlink()
    project.write(
        "tests/assert_n_is_small.sql", "select * from {{ ref('cur_rep__t') }} where n > 10"
    )
    project.land(FILE, "I,1,11\nI,2,-1\n")
    project.land(f"rep/s/{HTML}/20240101-100000000.csv", "I,1,x\n")
    return project


@pytest.fixture
def told(
    rep: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """What a command was told so far."""
    file = tmp_path / "told.jsonl"
    command = shlex.join([sys.executable, "-c", APPENDS, str(file)])
    monkeypatch.setenv("TIDEMARK_NOTIFY", f"cmd:{command}")
    yield lambda: [json.loads(line) for line in file.read_text().splitlines()]
    (paths.lake_dir() / "told.json").unlink(missing_ok=True)


def test_a_red_lake_is_told_once_reported_and_turns_green(
    rep: Project,
    told: Callable[[], list[dict[str, Any]]],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEMARK_RUN_ID", "rep-1")
    assert tidemark(rep, "run") == 1
    (first,) = told()
    assert (first["state"], first["run_id"]) == ("red", "rep-1")
    dead = "rep.t: 1 open dead letter, max_dead_letters is 0. Next: tidemark replay rep.t"
    test = "test assert_n_is_small failed: Got 1 result, configured to fail if != 0."
    assert first["text"] == f"Tidemark run failed: rep-1\n{dead}"
    assert first["reasons"] == [dead, f"{test} Next: tidemark run"]
    capfd.readouterr()

    with monkeypatch.context() as patched:
        patched.setattr(session, "get", lambda: pytest.fail("Spark is not needed"))
        assert tidemark(rep, "status", "--check") == 1
        assert capfd.readouterr().err == f"tidemark: red: {dead} (1 more: tidemark status)\n"
        assert len(told()) == 1
        assert tidemark(rep, "status") == 0
        lines = capfd.readouterr().out.splitlines()
        assert dead in lines
        assert any(line.startswith(f"rep.s: set aside rep/s/{HTML}/") for line in lines)
        assert tidemark(rep, "report") == 0
    file = rep.folder / "target" / "report.html"
    assert capfd.readouterr().out == f"Wrote {file}\n"
    page = Page(file)
    # What comes from files is text.
    assert page.all("script") == page.all("img") == []
    assert f"fails the check {HTML}" in page.text
    assert f"set aside rep/s/{HTML}/" in page.text
    assert dead.partition(" Next")[0] in page.text
    for name in ("rep-1", "history.hist_rep__t", "cur_rep__t", "assert_n_is_small"):
        assert name in page.text
    addresses = [each.get("href") or each.get("src") or "" for _, each in page.elements]
    assert all(each[:1] in ("", "#") or each == "data:," for each in addresses), addresses
    charts = {each["aria-label"] for each in page.all("svg")}
    assert charts == {
        *("Changes of each run, by kind", "Open dead letters by reason"),
        *("Rows at the end of each day, by layer", "Seconds of the slowest nodes"),
    }

    # A row that is mended; it also ends the test's failure.
    rep.land(FILE, "I,1,1\nI,2,1\n")
    monkeypatch.setenv("TIDEMARK_RUN_ID", "rep-2")
    assert tidemark(rep, "run") == 0
    assert tidemark(rep, "run") == 0
    assert tidemark(rep, "status", "--check") == 0
    assert capfd.readouterr().out.splitlines()[-1] == "green: 2 tables"
    (_, second) = told()
    assert second["text"] == "Tidemark run succeeded: rep-2"
    assert (second["state"], second["reasons"]) == ("green", [])


def test_links_lead_to_dbt_s_documentation(rep: Project, tmp_path: Path) -> None:
    (rep.folder / "target" / "static_index.html").touch()
    assert tidemark(rep, "report") == 0
    assert tidemark(rep, "report", "--output", str(tmp_path / "a/b.html")) == 0
    base = "https://docs.example/x/"
    assert tidemark(rep, "report", "--output", str(tmp_path / "c.html"), "--docs", base) == 0
    relative = os.path.relpath(rep.folder / "target" / "static_index.html", tmp_path / "a")
    for file, docs in {
        rep.folder / "target" / "report.html": "static_index.html",
        tmp_path / "a/b.html": relative,
        tmp_path / "c.html": base,
    }.items():
        found = {each["href"] for each in Page(file).all("a")}
        assert f"{docs}#!/model/model.showcase.cur_rep__t" in found
        assert f"{docs}#!/source/source.showcase.rep.t" in found


def test_what_cannot_be_reported_is_said_in_a_sentence(
    rep: Project,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert tidemark(rep, "report", "--output", str(tmp_path)) == 1
    assert "The report cannot be written" in capfd.readouterr().err
    monkeypatch.setattr(books, "without_spark", lambda: None)
    assert tidemark(rep, "report") == 1
    assert "Nothing has landed in" in capfd.readouterr().err
    assert tidemark(rep, "status", "--check") == 1
    assert "red: nothing has landed in" in capfd.readouterr().err
