"""The `tidemark` command, as a newcomer uses it."""

import json

import pytest

from tests.project import Project
from tidemark import cli

pytestmark = pytest.mark.functional

PEOPLE = (
    "id,name,born,height\n1,Ada,1815-12-10,1.65\n2,Grace,1906-12-09,\n3,O'Neil,1950-01-02,1.8\n"
)


def tidemark(project: Project, *arguments: str) -> int:
    with project.here():
        return cli.main(arguments)


def test_any_csv_becomes_tables_in_a_minute(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    project.land("club/people/people.csv", PEOPLE, modified=1_700_000_000)
    assert tidemark(project, "add", "club.people", "--key", "id") == 0
    assert capfd.readouterr().out.splitlines() == [
        "Wrote models/staging/club/_club__sources.yml",
        "Wrote models/staging/club/stg_club__people.sql",
        "Wrote models/current/club/cur_club__people.sql",
        "Wrote models/history/club/hist_club__people.sql",
        "Wrote models/staging/club/_club__staging.yml",
        "Wrote models/current/club/_club__current.yml",
        "Wrote models/history/club/_club__history.yml",
        "Check the types and write the descriptions in the YAML, then: tidemark run",
    ]
    assert (
        "log_club__people__is_complete"
        in (project.folder / "models/staging/club/_club__sources.yml").read_text()
    )
    assert tidemark(project, "run") == 0
    assert "Landed 3 rows from 1 file." in capfd.readouterr().out

    project.land(
        "club/people/people.csv",
        PEOPLE.replace("Grace", "Grace H.").replace("3,O'Neil,1950-01-02,1.8\n", "4,Alan,,\n"),
        modified=1_700_100_000,
    )
    assert tidemark(project, "run") == 0
    assert "Building what depends on club.people." in capfd.readouterr().out
    query = "select id, name, born, height from current.cur_club__people order by id"
    assert tidemark(project, "sql", query, "--format", "csv") == 0
    assert capfd.readouterr().out.splitlines() == [
        "id,name,born,height",
        "1,Ada,1815-12-10,1.65",
        "2,Grace H.,1906-12-09,",
        "4,Alan,,",
    ]
    versions = "select id, version_number, is_current from history.hist_club__people order by 1, 2"
    assert tidemark(project, "sql", versions, "--format", "json") == 0
    assert [tuple(json.loads(line).values()) for line in capfd.readouterr().out.splitlines()] == [
        (1, 1, True),
        (2, 1, False),
        (2, 2, True),
        (3, 1, False),
        (4, 1, True),
    ]

    rows = "select * from current.cur_club__people"
    for options, is_shown in (((), False), (("--all",), True)):
        assert tidemark(project, "sql", rows, *options) == 0
        names = capfd.readouterr().out.splitlines()[0].split()
        assert ("_load_id" in names, "name" in names) == (is_shown, True)

    assert tidemark(project, "run") == 0
    assert "Nothing to build: every table is up to date." in capfd.readouterr().out
    assert tidemark(project, "add", "club.people", "--key", "id") == 1
    assert "already exists. Nothing was written" in capfd.readouterr().err


def test_a_table_prints_null_and_true_as_words(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    assert tidemark(project, "sql", "select null as a, true as b, '' as c") == 0
    assert capfd.readouterr().out.splitlines()[2].split() == ["NULL", "true"]


def test_a_column_of_tidemark_is_shown_only_if_the_statement_names_it(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    project.spark.sql("create or replace temporary view cur_club__orders as select 1 n, 2 _order")
    for selected, names in (("*", ["n"]), ("n, _order", ["n", "_order"])):
        assert tidemark(project, "sql", f"select {selected} from cur_club__orders") == 0
        assert capfd.readouterr().out.splitlines()[0].split() == names


def test_a_wrong_statement_is_spark_s_own_sentence(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    assert tidemark(project, "sql", "select * from nowhere.at_all") == 1
    error = capfd.readouterr().err
    assert error.startswith("tidemark: [TABLE_OR_VIEW_NOT_FOUND]")
    assert "JVM stacktrace" not in error
    assert "UnresolvedRelation" not in error
    assert "`tidemark run` creates the tables" in error


def test_what_is_missing_is_said_in_a_sentence(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    assert tidemark(project, "add", "club.members", "--key", "id") == 1
    assert "There are no files below" in capfd.readouterr().err
    columns = "id bigint, price decimal(9, 2)"
    assert tidemark(project, "add", "club.members", "--key", "nr", "--columns", columns) == 1
    assert "The key column nr is not among the columns: id, price." in capfd.readouterr().err
    assert tidemark(project, "add", "club.members", "--key", "id", "--columns", columns) == 0
    project.landing.rmdir()
    assert tidemark(project, "run") == 1
    error = capfd.readouterr().err
    assert f"The landing folder {project.landing} does not exist. Create it" in error


def test_a_declaration_that_cannot_be_is_refused_by_run_and_by_dbt(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    project.add("typo.t", {"id": "int"}, "id")
    file = project.folder / "models/staging/typo/_typo__sources.yml"
    file.write_text(file.read_text().replace("format: dms", "format: dsm"))
    assert tidemark(project, "run") == 1
    message = (
        "models/staging/typo/_typo__sources.yml, typo.t: format 'dsm' is unknown: "
        "use one of dms, debezium, extract. Did you mean 'dms'?"
    )
    assert message in capfd.readouterr().err
    result = project.dbt("build")
    assert not result.success
    assert message in str(result.exception)
