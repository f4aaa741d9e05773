"""`tidemark run` and `replay` as a user meets them: failures, new columns, what is told."""

import io
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.project import Project
from tidemark import cli
from tidemark.ingest import ledger
from tidemark.spark import session

pytestmark = pytest.mark.functional

COLUMNS = {"id": "int", "price": "int", "seq": "bigint"}
FIRST = "20240101-100000000.csv"
COUNT = "select count(*) as n from {{ ref('cur_fails__good') }}"


def tidemark(project: Project, *arguments: str) -> int:
    with project.here():
        return cli.main(arguments)


def status_of(told: str) -> dict[str, dict[str, str]]:
    """The lines of `tidemark status`, by table and heading; a column of zeros is not shown."""
    shown = told.splitlines()
    (rule,) = [n for n, line in enumerate(shown) if line and not line.strip("- ")]
    spans = [match.span() for match in re.finditer("-+", shown[rule])]
    headings = [shown[rule - 1][start:end].strip() for start, end in spans]
    tables: dict[str, dict[str, str]] = {}
    for line in shown[rule + 1 :]:
        table, *cells = [line[start:end].strip() for start, end in spans]
        # Sentences about a table follow.
        tables.setdefault(table, dict(zip(headings[1:], cells, strict=True)))
    return tables


def run_of(project: Project, name: str) -> dict[str, Any]:
    """The newest row of tidemark.runs of a table."""
    source, table = name.split(".")
    rows = project.spark.table("tidemark.runs").where(
        f"source_name = '{source}' and table_name = '{table}'"
    )
    return rows.sort("at", ascending=False).limit(1).collect()[0].asDict()


@dataclass
class Ran:
    """A project, and what its first runs printed."""

    project: Project
    printed: list[str]

    def run(self, files: Mapping[str, str]) -> int:
        """These files arrive, and a run begins; gives its exit code."""
        for path, text in files.items():
            self.project.land(path, text)
        told = io.StringIO()
        with redirect_stdout(told), redirect_stderr(told):
            code = tidemark(self.project, "run")
        self.printed.append(told.getvalue())
        return code


@pytest.fixture(scope="module")
def failing(module_project: Callable[[], Project]) -> Ran:
    """A first run in which two of three tables fail."""
    project = module_project()
    for table, settings in {"bad": {"max_rejected_share": 0.25}, "good": {}, "out": {}}.items():
        project.add(f"fails.{table}", COLUMNS, "id", **settings)
    without_histories(project)
    elsewhere = project.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "20240101-100000000.csv").write_text("I,1,10,1\n")
    link(project).parent.mkdir()
    link(project).symlink_to(elsewhere)
    project.write("models/marts/due/due_count.sql", COUNT)
    ran = Ran(project, [])
    files = {"bad": "I,1,10,1\nI,2,much,2\nI,3,30,3\n", "good": "I,1,10,1\n"}
    code = ran.run({f"fails/{table}/{FIRST}": text for table, text in files.items()})
    assert code == 1, ran.printed
    return ran


def without_histories(project: Project) -> None:
    """Fewer tables, fewer seconds."""
    for model in project.folder.glob("models/history/*/*.sql"):
        model.unlink()


def link(project: Project) -> Path:
    """The folder of `out`, which leads out of the landing folder."""
    return project.landing / "fails/out"


def test_a_new_spark_reads_ahead_what_has_landed(failing: Ran) -> None:
    with failing.project.here():
        ahead = session.read_ahead(session._Later(), "log_fails.good", 1)  # type: ignore[arg-type]
        assert ahead is not None
        assert {row["_op"] for row in ahead.result()} == {"I"}
        # A Spark that runs already has its classes.
        assert session.read_ahead(failing.project.spark, "log_fails.good", 1) is None


def test_a_table_that_fails_does_not_stop_the_others(
    failing: Ran, capfd: pytest.CaptureFixture[str]
) -> None:
    project, (told,) = failing.project, failing.printed
    assert "tidemark: 2 of 3 tables failed, see above: fails.bad, fails.out." in told
    assert "1 of 3 records are bad, which is more than max_rejected_share 0.25" in told
    assert "record 2: not a int" in told
    assert "is a link that leads out of the landing folder" in told
    assert tidemark(project, "status") == 0
    told = capfd.readouterr().out
    lines = status_of(told)
    bad, good = lines["fails.bad"], lines["fails.good"]
    assert (bad["new files"], bad["last run"]) == ("1", "failed")
    assert (good["new files"], good["last run"]) == ("0", "")
    assert "to build" not in good
    # It has just landed a change of 2024.
    assert good["last landed"].endswith(" s ago")
    assert good["lag"].endswith(" d")
    assert "1 of 3 records are bad" in told
    assert project.rows("log_fails.bad", ["count(*)"]) == [(0,)]
    assert project.rows("current.cur_fails__good", ["id", "price"]) == [(1, 10)]
    assert not project.spark.catalog.tableExists("current.cur_fails__bad")
    assert "none of them landed" in run_of(project, "fails.bad")["failure"]


def test_only_what_changed_is_built_and_a_failing_table_does_not_make_it_more(
    failing: Ran, capfd: pytest.CaptureFixture[str]
) -> None:
    project = failing.project
    project.write("models/marts/due/due_count.sql", f"{COUNT} where true")
    assert tidemark(project, "status") == 0
    good = status_of(capfd.readouterr().out)["fails.good"]
    assert (good["new files"], good["to build"]) == ("0", "1")
    assert tidemark(project, "run") == 1
    assert "Building due_count." in capfd.readouterr().out
    assert tidemark(project, "run") == 1
    assert "Nothing to build" in capfd.readouterr().out

    # A node of which a test fails is built again; what reads it waits.
    cured = "{{ config(severity='error') }} select 1 from {{ ref('cur_fails__good') }}"
    test = project.write("tests/assert_nothing.sql", cured)
    assert tidemark(project, "run") == 1
    assert tidemark(project, "run") == 1
    assert "Building cur_fails__good, due_count" in capfd.readouterr().out
    test.unlink()
    assert tidemark(project, "run") == 1

    # Mended in its file, it lands with the next run.
    link(project).unlink()
    project.land(f"fails/bad/{FIRST}", "I,1,10,1\nI,2,20,2\nI,3,30,3\n")
    capfd.readouterr()
    assert tidemark(project, "run") == 0
    assert "fails__good" not in capfd.readouterr().out.rsplit("Building ", 1)[1]
    assert project.rows("current.cur_fails__bad", ["id", "price"]) == [(1, 10), (2, 20), (3, 30)]
    assert project.rows("log_fails.bad", ["count(*)"]) == [(3,)]


def test_dbt_alone_builds_the_tables_that_did_not_fail(failing: Ran) -> None:
    project = failing.project
    link(project).unlink(missing_ok=True)
    project.land("fails/bad/20240101-110000000.csv", "I,4,much,4\n")
    project.land("fails/good/20240101-110000000.csv", "U,1,11,2\n")
    result = project.dbt("build")
    failed = [each.node.name for each in result.result.results if each.status == "error"]
    assert failed == ["stg_fails__bad"]
    assert project.rows("current.cur_fails__good", ["price"]) == [(11,)]


@pytest.mark.slow
def test_replay_gives_the_tables_as_if_all_had_been_good_at_once(project: Project) -> None:
    right = COLUMNS | {"price": "decimal(12, 2)"}
    project.add("mend.wrong", COLUMNS, "id", sequence="seq")
    project.add("mend.right", right, "id", sequence="seq")
    files = {
        "LOAD00000001.csv": "1,1,0\n2,2.50,0\n",
        "20240101-100000000.csv": "U,1,1.10,1\nI,3,3,1\nU,1,4,3\n",
        "20240101-110000000.csv": "U,1,1.20,2\nD,3,,2\nI,3,3.30,3\n",
    }
    for name, content in files.items():
        for table in ("wrong", "right"):
            project.land(f"mend/{table}/{name}", content, modified=1_700_000_000)
        assert tidemark(project, "run") == 0
    open_letters = "source_name = 'mend' and superseded_by is null"
    letters = project.spark.table("tidemark.dead_letter")
    assert letters.where(open_letters).count() == 4

    path = "models/staging/mend/_mend__sources.yml"
    declared = yaml.safe_load((project.folder / path).read_text())
    declared["sources"][0]["tables"][0]["columns"][1]["data_type"] = "decimal(12, 2)"
    project.write(path, yaml.safe_dump(declared))
    assert tidemark(project, "replay", "mend.wrong") == 0
    assert letters.where(open_letters).count() == 0
    columns = {
        "log_mend.{}": ["_op", "id", "price", "_position"],
        "current.cur_mend__{}": ["id", "price", "seq"],
        "history.hist_mend__{}": ["id", "price", "valid_from", "valid_to", "is_current"],
    }
    for relation, names in columns.items():
        some = ", ".join(names)
        wrong = project.rows(relation.format("wrong"), names, some)
        assert wrong == project.rows(relation.format("right"), names, some), relation
    assert tidemark(project, "replay") == 0
    assert project.rows("log_mend.wrong", ["count(*)"]) == [(8,)]


@pytest.mark.slow
def test_a_new_column_is_no_drift_of_a_feed_with_partial_rows(project: Project) -> None:
    settings = {"header": "all", "ignore_null_updates": True, "include_columns": ["name"]}
    project.add("part.t", {"id": "int", "name": "string"}, "id", **settings)
    del settings["include_columns"]
    project.add("part.u", {"id": "int", "name": "string"}, "id", **settings)
    for table in "tu":
        project.land(f"part/{table}/20240101-100000000.csv", "Op,id,name\nI,1,a\n")
    assert tidemark(project, "run") == 0
    for hour in (11, 12):
        for table in "tu":
            line = f"Op,id,extra,name\nU,1,{hour},\n"
            project.land(f"part/{table}/20240101-{hour}0000000.csv", line)
        assert tidemark(project, "run") == 0
    assert project.rows("current.cur_part__t", ["id", "name"]) == [(1, "a")]
    assert project.rows("current.cur_part__u", ["id", "name", "extra"]) == [(1, "a", "12")]
    extras = project.rows("history.hist_part__u", ["extra"], "valid_from")
    assert extras == [(None,), ("11",), ("12",)]


def test_a_first_run_builds_what_has_files_and_what_that_needs(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    for table in "abc":
        project.add(f"idle.{table}", {"id": "int", "name": "string"}, "id")
    without_histories(project)
    both = (
        "select id from {{ ref('cur_idle__a') }} union all select id from {{ ref('cur_idle__b') }}"
    )
    project.write("models/marts/idle/idle_a_and_b.sql", both)
    project.land("idle/a/20240101-100000000.csv", "I,1,x\n")
    assert tidemark(project, "run") == 0
    told = capfd.readouterr().out
    assert "No folder" not in told
    assert re.search(r"^\d+ models built in \d+ s\.$", told, re.MULTILINE)
    assert "START sql" not in told
    assert all(len(line) <= 100 for line in told.splitlines())
    assert tidemark(project, "status") == 0
    told = capfd.readouterr().out
    assert "yet: idle.b (idle/b), idle.c (idle/c)" in told
    assert project.rows("marts.idle_a_and_b", ["id"]) == [(1,)]
    tables = "show tables in current like 'cur_idle__*'"

    def built() -> list[str]:
        return sorted(row.tableName for row in project.spark.sql(tables).collect())

    assert built() == ["cur_idle__a", "cur_idle__b"]
    project.land("idle/c/20240101-100000000.csv", "I,3,x\n")
    project.land("idle/b/20240101-100000000.csv", "I,2,x\n")
    assert tidemark(project, "run") == 0
    assert built() == ["cur_idle__a", "cur_idle__b", "cur_idle__c"]
    assert project.rows("marts.idle_a_and_b", ["id"]) == [(1,), (2,)]


@pytest.mark.slow
def test_a_file_that_is_taken_back_was_never_there(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    feed = {"sequence": "seq", "timestamp_column": "ts", "ahead": None, "lateness": "7 days"}
    project.add("undone.t", {"id": "int", "name": "string", "seq": "int"}, "id", **feed)
    project.add("undone.x", {"id": "int", "name": "string"}, "id", format="extract")
    # As `tidemark add` writes it: models wait for the test.
    for table in ("t", "x"):
        project.test_log("undone", table)
    # What depends on neither keeps its rows, although it is to be built again.
    config = "config(materialized='incremental', incremental_strategy='append')"
    kept = f"{{{{ {config} }}}} select {{{{ is_incremental() }}}} as again"
    project.write("models/marts/undone_kept.sql", kept)
    project.declare("undone.bare", {"id": "int"}, "id")
    project.land("undone/bare/20240101-100000000.csv", "I,1\n")
    project.land("undone/t/20240101-100000000.csv", "I,2024-01-01 10:00:00,1,a,1\n")
    project.land("undone/x/a.csv", "id,name\n1,a\n2,b\n", modified=1_704_100_000)
    assert tidemark(project, "run") == 0
    before = {
        table: project.rows(f"{table}", ["* except (_order, _load_id)"], "id")
        for layer in ("current.cur", "history.hist")
        for table in (f"{layer}_undone__t", f"{layer}_undone__x")
    }
    wrong = "U,2999-01-01 00:00:00,1,z,9\nI,2999-01-01 00:00:00,7,z,9\nU,x,1,z,10\n"
    project.land("undone/t/20240102-100000000.csv", wrong)
    project.land("undone/x/b.csv", "id,name\n1,c\n", modified=1_704_200_000)
    assert tidemark(project, "run") == 0
    assert tidemark(project, "retract", "undone/nothing.csv") == 1
    assert "Nothing of 'undone/nothing.csv' has landed" in capfd.readouterr().err
    # Noted, and not done yet: dbt alone must not build on.
    with project.here():
        ledger.retract(project.spark, "undone/x/b.csv", "test")
    failed = project.dbt("build").result.results
    reasons = {each.node.name: each.message for each in failed if each.status == "error"}
    assert list(reasons) == ["stg_undone__x"]
    assert "undone/x/b.csv is to be retracted" in str(reasons["stg_undone__x"])
    project.write("models/marts/undone_kept.sql", f"{kept} -- changed")
    assert tidemark(project, "retract", "undone/t/20240102-100000000.csv") == 0
    # dbt alone has built it, too.
    again = project.rows("marts.undone_kept", ["again"], "1")
    assert again == [(False,), (True,), (True,)]
    # A feed without models has nothing to rebuild, and is done with.
    assert tidemark(project, "retract", "undone/bare") == 0
    capfd.readouterr()
    assert tidemark(project, "run") == 0
    assert "etract" not in capfd.readouterr().out
    for table, rows in before.items():
        assert project.rows(table, ["* except (_order, _load_id)"], "id") == rows, table
    open_letters = "source_name = 'undone' and superseded_by is null"
    assert project.spark.table("tidemark.dead_letter").where(open_letters).count() == 0
    # Lateness counts from what is there.
    project.land("undone/t/20240103-100000000.csv", "U,2024-01-03 10:00:00,1,b,2\n")
    assert tidemark(project, "run") == 0
    assert project.rows("current.cur_undone__t", ["name"]) == [("b",)]
    assert tidemark(project, "run") == 0
    assert "Nothing to build" in capfd.readouterr().out
    # It can be confirmed again.
    assert tidemark(project, "confirm", "undone/x/b.csv") == 0
    assert tidemark(project, "run") == 0
    assert project.rows("current.cur_undone__x", ["id", "name"]) == [(1, "c")]


@pytest.mark.slow
def test_a_table_that_fails_keeps_a_retraction_open(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    """That of its own file, and of others' files in the models below it."""
    for table in ("a", "b"):
        project.add(f"halfway.{table}", {"id": "int"}, "id")
        project.land(f"halfway/{table}/20240101-100000000.csv", "I,1\n")
        project.land(f"halfway/{table}/20240102-100000000.csv", "I,2\n")
    config = "config(materialized='incremental', incremental_strategy='append')"
    sides = [f"select '{it}' as side, id from {{{{ ref('cur_halfway__{it}') }}}}" for it in "ab"]
    rows = f"with sides as ({' union all '.join(sides)}) select * from sides"
    if_new = "{% if is_incremental() %}where false{% endif %}"
    project.write("models/marts/halfway_both.sql", f"{{{{ {config} }}}} {rows} {if_new}")
    assert tidemark(project, "run") == 0
    properties = "alter table log_halfway.b {} tblproperties ('delta.appendOnly'{})"
    project.spark.sql(properties.format("set", " = 'true'"))
    assert tidemark(project, "retract", "halfway/b/20240102-100000000.csv") == 1
    assert "halfway.b" in capfd.readouterr().err

    project.land("halfway/a/20240103-100000000.csv", "I,3\n")
    assert tidemark(project, "retract", "halfway/a/20240102-100000000.csv") == 1
    assert project.rows("current.cur_halfway__a", ["id"]) == [(1,), (3,)]
    project.spark.sql(properties.format("unset", ""))
    assert tidemark(project, "run") == 0
    assert project.rows("current.cur_halfway__b", ["id"]) == [(1,)]
    both = project.rows("marts.halfway_both", ["side", "id"], "1, 2")
    assert both == [("a", 1), ("a", 3), ("b", 1)]
    capfd.readouterr()
    assert tidemark(project, "run") == 0
    assert "etract" not in capfd.readouterr().out


@pytest.mark.slow
def test_a_file_that_was_set_aside_and_deleted_is_given_up(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    project.add("given.t", COLUMNS, "id", strict=True)
    project.test_log("given", "t")
    project.land("given/t/20240101-100000000.csv", "I,1,10,1\n")
    for hour, number in ((11, 2), (12, 3)):
        project.land(f"given/t/20240101-{hour}0000000.csv", f"I,{number},much,1\n")
    assert tidemark(project, "run") == 0
    commits = project.commits("current.cur_given__t")
    gone = "given/t/20240101-110000000.csv"
    (project.landing / gone).unlink()
    is_gone = f"no longer in the landing folder: {gone}"
    assert tidemark(project, "replay", "given.t") == 0
    assert is_gone in capfd.readouterr().out

    assert tidemark(project, "retract", gone) == 0
    told = capfd.readouterr().out
    assert f"Retracting {gone} of given.t." in told
    assert "Nothing to build" in told
    assert is_gone not in told
    open_letters = "tidemark.dead_letter where source_name = 'given' and superseded_by is null"
    assert project.rows(open_letters, ["distinct file"]) == [("given/t/20240101-120000000.csv",)]
    assert tidemark(project, "status") == 0
    told = capfd.readouterr().out
    assert gone not in told
    assert status_of(told)["given.t"]["set aside"] == "1"
    assert project.commits("current.cur_given__t") == commits, "nothing was to rebuild"
    assert project.dbt("test", "--select", "source:given").success
    # Another version of it is a new file.
    project.land(gone, "I,2,20,1\n")
    assert tidemark(project, "run") == 0
    assert project.rows("current.cur_given__t", ["id"]) == [(1,), (2,)]


@pytest.mark.slow
def test_a_strict_feed_refuses_the_whole_file(project: Project) -> None:
    project.add("gate.t", COLUMNS, "id", strict=True)
    project.land("gate/t/20240101-100000000.csv", "I,1,10,1\nI,2,much,2\n")
    project.land("gate/t/20240101-110000000.csv", "I,3,30,1\n")
    assert tidemark(project, "run") == 0
    assert project.rows("log_gate.t", ["id"]) == [("3",)]
    letters = project.spark.table("tidemark.dead_letter").where("source_name = 'gate'")
    found = [(row.position, row.reason, row.code) for row in letters.sort("position").collect()]
    assert found == [
        (None, "1 of its 2 records are bad, and the feed is strict", "BAD_RECORDS"),
        (2, "not a int", "NOT_OF_TYPE"),
    ]
    project.land("gate/t/20240101-120000000.csv", "I,4,40,1\n")
    with project.here():
        told = subprocess.run(
            [sys.executable, "-c", _STATUS_WITHOUT_SPARK],
            capture_output=True,
            text=True,
        )
    assert told.returncode == 0, told.stderr
    line = status_of(told.stdout)["gate.t"]
    assert [line[each] for each in ("new files", "set aside", "dead letters")] == ["1", "1", "1"]
    aside = "gate.t: set aside gate/t/20240101-100000000.csv: 1 of its 2 records are bad"
    assert aside in told.stdout


_STATUS_WITHOUT_SPARK = """
import sys
from tidemark import cli
code = cli.main(["status"])
assert "pyspark" not in sys.modules
sys.exit(code)
"""


@pytest.mark.slow
def test_what_a_strict_feed_refuses_is_not_deleted(project: Project) -> None:
    """The rest of an extract or of a reload does not stand for the whole."""
    extract = {"format": "extract", "extract_is": "folder", "time_in_name": "%Y-%m-%d"}
    project.add("gates.f", {"id": "int", "n": "int"}, "id", strict=True, **extract)
    project.add("gates.t", {"id": "int", "n": "int"}, "id", strict=True)
    for day, bad in (("2024-01-01", 2), ("2024-01-02", "x")):
        project.land(f"gates/f/{day}/part-0.csv", "id,n\n1,1\n")
        project.land(f"gates/f/{day}/part-1.csv", f"id,n\n2,{bad}\n")
        project.land("gates/t/LOAD00000001.csv", f"1,{day[-1]}\n")
        project.land("gates/t/LOAD00000002.csv", f"2,{bad}\n")
        assert tidemark(project, "run") == 0
    assert project.rows("current.cur_gates__f", ["id", "n"]) == [(1, 1), (2, 2)]
    assert project.rows("current.cur_gates__t", ["id", "n"]) == [(1, 2), (2, 2)]
    letters = project.spark.table("tidemark.dead_letter").where("source_name = 'gates'")
    reasons = [row.reason for row in letters.where("position is null").collect()]
    assert sorted(reasons) == [
        "1 of its 1 records are bad, and the feed is strict",
        "1 of its 1 records are bad, and the feed is strict",
        "gates/f/2024-01-02/part-1.csv of the same extract was refused",
    ]


@pytest.fixture(scope="module")
def told(module_project: Callable[[], Project]) -> Ran:
    """Two runs of two tables; of `grow` the second has a column more."""
    project = module_project()
    columns = {"id": "int", "note": "string", **COLUMNS}
    project.add("told.t", columns, "id", sequence="seq", timestamp_column="ts")
    without_histories(project)
    project.add("grow.t", {"id": "int", "name": "string"}, "id", header="all")
    first = {
        "told/t/LOAD00000001.csv": "2024-01-01 00:00:00,1,,10,0\n",
        "told/t/20240101-100000000.csv": "I,2024-01-01 09:00:00,2,,20,1\n"
        "U,2024-01-01 09:00:01,2,,21,2\n"
        "I,2024-01-01 09:00:02,3,,x,1\n",
        "grow/t/20240101-100000000.csv": "Op,id,name\nI,1,a\nI,2,b\n",
    }
    second = {
        "told/t/20240101-110000000.csv": "U,2024-01-01 09:00:01,2,,21,2\n"
        "U,2024-01-01 08:00:00,1,,11,1\n"
        "D,2024-01-01 10:30:00,2,,,3\n"
        # These two are no copies: a NULL stands elsewhere.
        "U,2024-01-01 10:00:00,1,12,,2\nU,2024-01-01 10:00:00,1,,12,2\n",
        "grow/t/20240101-110000000.csv": "Op,id,country code,name\nU,1,SE,a\n",
    }
    ran = Ran(project, [])
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TIDEMARK_RUN_ID", "run-42")
        for files in (first, second):
            assert ran.run(files) == 0, ran.printed
    return ran


def test_what_a_run_did_is_told_and_kept(told: Ran, capfd: pytest.CaptureFixture[str]) -> None:
    last = run_of(told.project, "told.t")
    counts = ("files", "rows", "inserted", "updated", "deleted", "late", "duplicate", "rejected")
    assert [last[name] for name in counts] == [1, 5, 0, 4, 1, 1, 1, 0]
    assert (last["run_id"], str(last["newest_change"])) == ("run-42", "2024-01-01 10:30:00")
    assert all("told.t" in printed for printed in told.printed)
    from tidemark import paths

    with told.project.here():
        log = (paths.lake_dir() / "tidemark.log").read_text().splitlines()
    assert all(line.split(" ", 2)[1] == "run-42" for line in log[-3:])
    assert tidemark(told.project, "run") == 0
    assert "Nothing to build" in capfd.readouterr().out


def test_a_new_column_goes_on_into_current_and_history(
    told: Ran, capfd: pytest.CaptureFixture[str]
) -> None:
    project = told.project
    assert "grow.t: new column country_code string" in told.printed[1]
    expected = [(1, "a", "SE"), (2, "b", None)]
    assert project.rows("current.cur_grow__t", ["id", "name", "country_code"]) == expected
    assert project.rows("history.hist_grow__t", ["id", "country_code"], "id, valid_from") == [
        (1, None),
        (1, "SE"),
        (2, None),
    ]
    project.land("grow/t/20240101-120000000.csv", "Op,id,name\nU,1,c\n")
    assert tidemark(project, "run") == 0
    assert "new column" not in capfd.readouterr().out
    assert project.rows("current.cur_grow__t", ["id", "name", "country_code"])[0] == (1, "c", None)
