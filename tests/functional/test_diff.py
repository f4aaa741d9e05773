"""`tidemark diff`: what a pull request changes in the tables, on a git repository of its own."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.project import Project
from tidemark import cli

pytestmark = pytest.mark.functional

MART = "models/marts/pr/{}.sql"
SEGMENTS = """
select id, name, if(seq > 1, 'new', 'old') as segment, map('n', seq) as by_name
from {{ ref('cur_pr__t') }}
"""
COUNTS = "select segment, count(*) as n from {{ ref('pr_segments') }} group by segment"
UNTOUCHED = "select count(*) as n from {{ ref('cur_pr__t') }}"


def git(project: Project, *arguments: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(project.folder), *who, *arguments]
    subprocess.run(command, check=True, capture_output=True)


def diff(project: Project, *arguments: str) -> int:
    with project.here():
        return cli.main(["diff", *arguments])


def schemas(project: Project) -> set[str]:
    return {row[0] for row in project.spark.sql("show schemas").collect()}


@pytest.fixture(scope="module")
def pr(module_project: Callable[[], Project]) -> Iterator[Project]:
    """A branch `main` that is built, and a work tree on a branch of its own."""
    project = module_project()
    project.add("pr.t", {"id": "int", "name": "string", "seq": "bigint"}, "id", sequence="seq")
    config = "{{ config(unique_key='id') }}"
    project.write(MART.format("pr_segments"), config + SEGMENTS)
    project.write(MART.format("pr_counts"), COUNTS)
    project.write(MART.format("pr_untouched"), UNTOUCHED)
    project.write(MART.format("pr_old"), "select 1 as one")
    project.land("pr/t/20240101-100000000.csv", "I,1,a,1\nI,2,b,1\nI,3,c,2\nI,4,d|,2\n")
    with project.here():
        assert cli.main(["run"]) == 0
    git(project, "init", "--quiet", "--initial-branch", "main")
    project.write(".gitignore", "target/\nlogs/\nlanding/\n")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "as built")
    git(project, "switch", "--quiet", "--create", "change")
    yield project


@pytest.mark.slow
def test_nothing_changed_builds_nothing(pr: Project, capfd: pytest.CaptureFixture[str]) -> None:
    assert diff(pr, "main") == 0
    assert "no model differs." in capfd.readouterr().out


def test_a_comparison_shows_rows_columns_and_examples(
    pr: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    changed = SEGMENTS.replace("seq > 1, 'new'", "id > 1, 'NEW|'") + "where id <> 3"
    changed = changed.replace("map('n', seq)", "map('n', bigint(id))").replace(
        "as segment", "as segment, 1 as one"
    )
    config = "{{ config(unique_key='id') }}"
    pr.write(
        MART.format("pr_segments"), config + changed + " union all select 9, '', null, 2, map()"
    )
    pr.write(MART.format("pr_added"), "select 1 as one")
    (pr.folder / MART.format("pr_old")).unlink()
    there = schemas(pr)
    commits = {name: pr.commits(f"marts.{name}") for name in ("pr_segments", "pr_counts")}

    assert diff(pr, "main") == 0
    told = capfd.readouterr().out
    assert re.match(r"Compared with `main` \([0-9a-f]{7}\): 3 models differ or depend", told)
    assert "Deleted: pr_old; their tables stay." in told
    lines = {line.split()[1]: line for line in told.splitlines() if line.startswith("| pr_")}
    assert {*lines} == {"pr_added", "pr_counts", "pr_segments"}
    cells = {
        name: [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[2:-1]]
        for name, line in lines.items()
    }
    assert cells["pr_added"] == ["", "1", "", "", "", "new"]
    assert cells["pr_segments"][:5] == ["4", "4", "1", "1", "2"]
    assert cells["pr_segments"][5] == "+ one int, segment (2), by_name (2)"
    # No key: changed rows are an old and a new one.
    assert cells["pr_counts"][:5] == ["2", "3", "3", "2", "0"]
    assert '- id = `2`: segment: `old` to `NEW|`; by_name: `{"n":1}` to `{"n":2}`' in told
    assert "- id = `3`: gone" in told
    assert "- id = `9`: added" in told
    assert {name: pr.commits(f"marts.{name}") for name in commits} == commits
    assert schemas(pr) == there


@pytest.mark.slow
def test_a_failed_test_fails_after_the_comparison(
    pr: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    pr.write(MART.format("pr_segments"), "{{ config(unique_key='id') }}" + SEGMENTS + "limit 0")
    pr.write("tests/pr_has_rows.sql", "select 1 from {{ ref('pr_segments') }} having count(*) = 0")
    assert diff(pr, "main", "--keep") == 1
    done = capfd.readouterr()
    assert "| pr_segments | 4" in done.out
    assert "pr_has_rows (fail)" in done.err
    (kept,) = (name for name in schemas(pr) if name.startswith("diff_") and name.endswith("_marts"))
    assert pr.rows(f"{kept}.pr_segments", ["*"]) == []
    pr.spark.sql(f"drop schema {kept} cascade")
    (pr.folder / "tests/pr_has_rows.sql").unlink()


@pytest.mark.slow
def test_a_history_of_a_log_that_was_cut_is_named(
    pr: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    at = "2020-01-01 00:00:00+00:00"
    cut = json.dumps({"at": at, "before": at, "by": "change", "load_id": 0})
    pr.spark.sql(f"alter table log_pr.t set tblproperties ('tidemark.cut' = '{cut}')")
    file = pr.folder / "models/history/pr/hist_pr__t.sql"
    before = file.read_text()
    file.write_text(f"{before}\n-- changed\n")
    try:
        assert diff(pr, "main") == 0
    finally:
        file.write_text(before)
        pr.spark.sql("alter table log_pr.t unset tblproperties ('tidemark.cut')")
    told = capfd.readouterr().out
    assert "so versions from before the cut count as gone: hist_pr__t." in told


@pytest.mark.slow
def test_what_cannot_be_compared_is_refused(pr: Project, capfd: pytest.CaptureFixture[str]) -> None:
    assert diff(pr, "nowhere") == 1
    assert (
        "'nowhere' is not a branch, tag or commit of the git repository" in capfd.readouterr().err
    )
    # Results must not replace tables.
    (pr.folder / "macros").unlink()
    fixed = "{% macro generate_schema_name(name, node) %}{{ name or target.schema }}{% endmacro %}"
    pr.write("macros/project/generate_schema_name.sql", fixed)
    commits = pr.commits("marts.pr_segments")
    assert diff(pr, "main") == 1
    assert " would replace marts.pr_" in capfd.readouterr().err
    assert pr.commits("marts.pr_segments") == commits
    # Also if only new models would be in a schema of the lake, which would then be dropped.
    git(pr, "add", "--all")
    git(pr, "commit", "--quiet", "--message", "all but the new one")
    pr.write(MART.format("pr_new"), "select 1 as one")
    assert diff(pr, "change") == 1
    assert "the schema marts exists" in capfd.readouterr().err
    assert pr.commits("marts.pr_segments") == commits
