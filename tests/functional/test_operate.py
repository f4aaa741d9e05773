"""Maintain, restore, and the runbooks of docs/operate.md."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from tests.project import Project
from tidemark import cli, paths
from tidemark.dbt_plugin import project as dbt_project
from tidemark.formats import format
from tidemark.ingest import books
from tidemark.spark import session

pytestmark = pytest.mark.functional

CURRENT, HISTORY = "current.cur_ops__t", "history.hist_ops__t"
LOG, MART = "log_ops.t", "marts.ops_count"
COLUMNS = "* except (_load_id, _order)"
DAYS = {
    "20240101": "I,1,a,1\nI,2,b,1\nI,3,c,1\n",
    "20240102": "U,1,aa,2\nD,2,,2\nI,4,d,1\nU,3,c,0\n",
}


def tidemark(project: Project, *arguments: str) -> int:
    with project.here():
        return cli.main(arguments)


def contents(project: Project, *tables: str) -> dict[str, list[tuple[Any, ...]]]:
    return {
        table: project.rows(table, [COLUMNS if table in (CURRENT, HISTORY) else "*"], "1, 2, 3")
        for table in tables
    }


def delta(table: str) -> DeltaTable:
    return DeltaTable(books.place(table))


def lose(project: Project, table: str, *, schema: bool = False) -> None:
    """The metastore loses a table, and its schema, and the files are still in the warehouse."""
    place = Path(books.place(table))
    aside = place.rename(paths.lake_dir() / "aside")
    project.spark.sql(f"drop table {table}")
    if schema:
        project.spark.sql(f"drop schema {table.split('.')[0]}")
    place.parent.mkdir(exist_ok=True)
    aside.rename(place)


def old_file(folder: str, *, days: float) -> Path:
    """A file of no version, as a killed run leaves it."""
    file = Path(folder, "part-of-no-version.parquet")
    file.write_bytes(b"-")
    at = time.time() - days * 86400
    os.utime(file, (at, at))
    return file


@pytest.fixture(scope="module")
def ops(module_project: Callable[[], Project]) -> Iterator[Project]:
    """Two runs, ops-1 and ops-2."""
    project = module_project()
    columns = {"id": "int", "name": "string", "seq": "bigint"}
    project.add("ops.t", columns, "id", sequence="seq")
    mart = "select count(*) as n, max(seq) as seq, 1 as one from {{ ref('cur_ops__t') }}"
    project.write("models/marts/ops/ops_count.sql", mart)
    # What docs/operate.md says about options of dbt and Delta.
    file = project.folder / "models/current/ops/cur_ops__t.sql"
    config = "{{ config(tblproperties={'delta.deletedFileRetentionDuration': 'interval 8 days'}) }}"
    file.write_text(f"{config}\n{file.read_text()}")
    file = project.folder / "models/history/ops/hist_ops__t.sql"
    file.write_text(f"{{{{ config(partition_by='is_current') }}}}\n{file.read_text()}")
    with pytest.MonkeyPatch.context() as patched:
        for number, (day, content) in enumerate(DAYS.items(), 1):
            patched.setenv("TIDEMARK_RUN_ID", f"ops-{number}")
            project.land(f"ops/t/{day}-100000000.csv", content)
            assert tidemark(project, "run") == 0
    yield project


def test_options_of_dbt_and_delta_work_on_current_and_history(ops: Project) -> None:
    properties = delta(CURRENT).metadata().configuration
    assert properties["delta.deletedFileRetentionDuration"] == "interval 8 days"
    assert "tidemark.derived_from" in properties
    assert delta(HISTORY).metadata().partition_columns == ["is_current"]


@pytest.mark.slow
def test_restore_goes_back_to_a_run_and_the_next_run_catches_up(
    ops: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    tables = (CURRENT, HISTORY)
    assert ops.dbt("build", "--full-refresh", "--select", "cur_ops__t", "hist_ops__t").success
    expected = contents(ops, *tables, MART)
    refused = {
        ("cur_ops__x", "ops-1"): "No model is called 'cur_ops__x'. Similar ones: cur_ops__t",
        ("stg_ops__t", "ops-1"): "No model is called 'stg_ops__t'",
        ("ops_count", "ops-1"): "marts.ops_count is neither a current nor a history table",
        ("cur_ops__t", "ops-9"): "'ops-9' is neither a run that landed rows nor a time. The last",
        ("cur_ops__t", "2020-01-01"): "has no version of 2020-01-01. The oldest is of 20",
    }
    commits = {table: ops.commits(table) for table in expected}
    for (model, point), message in refused.items():
        assert tidemark(ops, "restore", model, "--to", point) == 1
        assert message in capfd.readouterr().err
    assert {table: ops.commits(table) for table in expected} == commits

    assert tidemark(ops, "restore", "cur_ops__t") == 0
    told = capfd.readouterr().out.splitlines()
    assert [line.split()[-1] for line in told if " MERGE " in line] == ["ops-2"]
    assert tidemark(ops, "restore", "cur_ops__t", "--to", "ops-1") == 0
    assert tidemark(ops, "restore", "hist_ops__t", "--to", "ops-1") == 0
    assert "The next run applies what came after" in capfd.readouterr().out
    for table in tables:
        assert ops.rows(table, ["id", "name"], "id") == [(1, "a"), (2, "b"), (3, "c")]
    assert tidemark(ops, "run") == 0
    assert contents(ops, *expected) == expected
    assert tidemark(ops, "run") == 0
    assert "Nothing to build" in capfd.readouterr().out

    # Damage by hand, undone by the time before it.
    before = datetime.now(UTC)
    ops.spark.sql(f"delete from {CURRENT} where id = 3")
    assert tidemark(ops, "restore", "cur_ops__t", "--to", before.isoformat()) == 0
    assert contents(ops, CURRENT)[CURRENT] == expected[CURRENT]


def test_a_query_reads_what_a_run_left(ops: Project) -> None:
    def shown(*tables: tuple[str, str]) -> Any:
        """The number of rows of each model as of a run."""
        counts = [
            f"select {nth} as nth, count(*) as n "
            f"from {{{{ tidemark.as_of_run(ref('{model}'), {run_id!r}) }}}}"
            for nth, (model, run_id) in enumerate(tables)
        ]
        return ops.dbt("show", "--inline", " union all ".join(counts))

    written = contents(ops, CURRENT)
    # A run that landed rows of another table only, between the two.
    query = f"select min(at) from {books.RUNS} where run_id = 'ops-2'"
    ((second,),) = ops.spark.sql(query).collect()
    row = {"run_id": "ops-else", "source_name": "ops", "table_name": "else"}
    books.of(ops.spark).append(books.RUNS, [{**row, "at": second.replace(tzinfo=UTC)}])
    try:
        of_history = [("hist_ops__t", f"ops-{number}") for number in (1, 2)]
        done = shown(*of_history, ("cur_ops__t", "ops-else"))
        assert done.success, done.exception
        counts = {row["nth"]: row["n"] for row in done.result.results[0].agate_table.rows}
        assert counts == {0: 3, 1: 5, 2: 3}
    finally:
        ops.spark.sql(f"delete from {books.RUNS} where run_id = 'ops-else'")
    for run_id, message in {
        "ops-9": "no run with the id 'ops-9' has landed rows. The last runs that wrote",
        "it's": "no run with the id 'it's'",
    }.items():
        assert message in str(shown(("cur_ops__t", run_id)).exception)
    assert contents(ops, CURRENT) == written


def test_restore_does_not_bring_back_a_file_that_was_retracted(
    ops: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    row = {"source_name": "ops", "table_name": "t", "file": "ops/t/gone.csv", "load_id": 0}
    books.of(ops.spark).append(books.LEDGER, [{**row, "status": "retracted"}])
    commits = ops.commits(HISTORY)
    assert tidemark(ops, "restore", "hist_ops__t", "--to", "ops-1") == 1
    assert "ops/t/gone.csv was retracted after version" in capfd.readouterr().err
    assert ops.commits(HISTORY) == commits
    ops.spark.sql(f"delete from {books.LEDGER} where file = 'ops/t/gone.csv'")


def test_a_lake_of_a_newer_tidemark_is_refused_and_an_old_one_is_not(
    ops: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    for table in (*books.TABLES, LOG):
        assert delta(table).metadata().configuration["tidemark.format"] == str(books.FORMAT)
    ledger = delta(books.LEDGER)
    newer = {"tidemark.format": str(books.FORMAT + 1)}
    ledger.alter.set_table_properties(newer, raise_if_not_exists=False)
    commits = ops.commits(books.LEDGER)
    try:
        for command in (["run"], ["run", "--all"], ["status"], ["maintain"]):
            assert tidemark(ops, *command) == 1
            assert "The lake was written by a newer Tidemark" in capfd.readouterr().err
        assert not ops.dbt("build", "--select", "cur_ops__t").success
    finally:
        assert ops.commits(books.LEDGER) == commits
        # Before formats, there was no property.
        ops.spark.sql(f"alter table {books.LEDGER} unset tblproperties ('tidemark.format')")
    assert tidemark(ops, "run") == 0


def test_maintain_compacts_and_vacuums_what_needs_it(
    ops: Project, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = contents(ops, CURRENT, HISTORY, LOG, MART)
    refused = {
        ("maintain", "ops.nothing"): "No table is called 'ops.nothing'",
        ("maintain", "--vacuum-after", "1 hour"): "Less than 7 days is not safe",
        ("maintain", "--vacuum-after", "soon"): "must be such as '7 days' or '36 hours'",
    }
    versions = {table: delta(table).version() for table in expected}
    for arguments, message in refused.items():
        assert tidemark(ops, *arguments) == 1
        assert message in capfd.readouterr().err
    monkeypatch.setattr(format, "MANY", 2)
    assert tidemark(ops, "maintain", "--dry-run", "ops.t", "cur_ops__t") == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split() == ["table", "files", "size", "compact", "old", "files"]
    assert "log_ops.t" in [line.split()[0] for line in lines]
    assert {table: delta(table).version() for table in expected} == versions

    names = ("ops.t", "cur_ops__t", "hist_ops__t", "marts.ops_count")
    now = ("--vacuum-after", "0 hours", "--force")
    files = list(Path(books.place(CURRENT)).glob("*.parquet"))
    assert tidemark(ops, "maintain", *names, *now) == 0
    told = capfd.readouterr().out
    assert all(len(line) <= 100 for line in told.splitlines()), told
    of_log = next(line.split() for line in told.splitlines() if line.startswith(LOG))
    assert of_log[1:3] == ["3", "2"]  # deletes have a file of their own
    assert contents(ops, *expected) == expected
    assert len(list(Path(books.place(CURRENT)).glob("*.parquet"))) < len(files)
    assert tidemark(ops, "restore", "cur_ops__t", "--to", "ops-1") == 1
    assert "rebuild the table from its log" in capfd.readouterr().err

    # VACUUM keeps what the table's own property keeps (8 days), or --vacuum-after.
    of_current = old_file(books.place(CURRENT), days=7.5)
    of_history = old_file(f"{books.place(HISTORY)}/is_current=true", days=10)
    assert tidemark(ops, "maintain", *names, "--vacuum-after", "14 days") == 0
    assert of_history.exists()
    assert tidemark(ops, "maintain", *names, "--vacuum-after", "7 days") == 0
    assert (of_current.exists(), of_history.exists()) == (True, False)
    of_current.unlink()
    capfd.readouterr()

    # delta-rs sees that there is nothing to do.
    with monkeypatch.context() as patched:
        patched.setattr(session, "get", lambda: pytest.fail("Spark is not needed"))
        assert tidemark(ops, "maintain", *names, *now) == 0
        assert "Nothing to do for 4 tables." in capfd.readouterr().out
        # Without the lease, it must not write: a run that is under way would fail.
        patched.setattr(format, "MANY", 10**6)
        ledger = delta(books.LEDGER).version()
        assert tidemark(ops, "maintain") == 0
        assert "Nothing to do for " in capfd.readouterr().out
        assert delta(books.LEDGER).version() == ledger


def test_a_run_maintains_when_the_policy_says_so(
    ops: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    assert tidemark(ops, "run") == 0
    file = ops.folder / "dbt_project.yml"
    settings = yaml.safe_load(file.read_text())
    without = file.read_text()

    def declare(policy: dict[str, str]) -> None:
        settings["vars"]["tidemark"] = {"maintain": policy}
        file.write_text(yaml.safe_dump(settings, sort_keys=False))

    declare({"evry": "1 day"})
    assert tidemark(ops, "run") == 1
    assert "maintain has no setting 'evry'" in capfd.readouterr().err

    old = datetime.now(UTC) - timedelta(days=400)
    own = books.of(ops.spark)
    own.append(books.RUNS, [{"run_id": "long ago", "at": old}])
    log = paths.lake_dir() / "tidemark.log"
    log.write_text(f"{old:%Y-%m-%dT%H:%M:%SZ} long-ago No new files.\n{log.read_text()}")
    declare({"every": "1 day"})
    capfd.readouterr()
    assert tidemark(ops, "run") == 0
    told = capfd.readouterr().out
    # The policy is no reason to build.
    assert "Nothing to build" in told
    assert "Deleted 1 row of tidemark.runs." in told
    assert "Maintained " in told
    assert "long-ago" not in log.read_text()
    assert "ops-1" in log.read_text()
    kept = [row["run_id"] for row in books.rows(own.read(books.RUNS, ("run_id",)))]
    assert "long ago" not in kept
    assert "ops-1" in kept
    assert tidemark(ops, "run") == 0
    assert "Maintained " not in capfd.readouterr().out
    file.write_text(without)


def test_the_metastore_is_lost(ops: Project, capfd: pytest.CaptureFixture[str]) -> None:
    expected = contents(ops, CURRENT, HISTORY, LOG, MART)
    # A lost schema of the lake's own folder is found when Spark starts.
    lose(ops, LOG, schema=True)
    note = paths.lake_dir() / "young_tables.json"
    note.write_text("{}")
    session.remove_unborn_tables(ops.spark)
    assert "log_ops.t was not in the metastore" in capfd.readouterr().err
    # In a warehouse elsewhere, the command finds the project's tables.
    lose(ops, CURRENT)
    assert tidemark(ops, "register") == 0
    told = capfd.readouterr().out
    assert "current.cur_ops__t is registered." in told
    assert "Registered 1 table." in told
    assert contents(ops, *expected) == expected
    assert tidemark(ops, "register") == 0
    assert "All tables that are in the warehouse are registered." in capfd.readouterr().out


@pytest.mark.slow
def test_tables_and_ledger_are_lost(ops: Project, capfd: pytest.CaptureFixture[str]) -> None:
    expected = contents(ops, CURRENT, HISTORY, MART)
    own = ("_op", "_file", "_position", "id", "name", "seq")
    log = ops.rows(LOG, own, "_file, _position")

    # A current or history table.
    shutil.rmtree(books.place(CURRENT))
    assert tidemark(ops, "run", "--all") == 1
    told = capfd.readouterr().out
    assert "If the metastore has the table, its files are gone. Runbooks: docs/operate.md" in told
    assert "ResolvedTable" not in told
    assert ops.dbt("build", "--full-refresh", "--select", "cur_ops__t").success
    assert contents(ops, *expected) == expected

    # The ledger: what is in the log is not landed again.
    shutil.rmtree(books.place(books.LEDGER))
    assert tidemark(ops, "run") == 1
    assert "its files are gone" in capfd.readouterr().err
    assert tidemark(ops, "sql", "drop table tidemark.ledger") == 0
    ops.land("ops/t/20240104-100000000.csv", "I,5,e,1\n")
    assert tidemark(ops, "run") == 0
    assert ops.rows(LOG, own, "_file, _position")[:-1] == log
    assert [row[0] for row in ops.rows(CURRENT, ["id"])] == [1, 3, 4, 5]

    # A change log: all its files are read again.
    everything = contents(ops, CURRENT, HISTORY, MART)
    log = ops.rows(LOG, own, "_file, _position")
    shutil.rmtree(books.place(LOG))
    assert tidemark(ops, "sql", "drop table log_ops.t") == 0
    assert tidemark(ops, "replay", "--all") == 1
    assert "needs the tables" in capfd.readouterr().err
    assert tidemark(ops, "replay", "--all", "ops.t") == 0
    assert ops.rows(LOG, own, "_file, _position") == log
    assert contents(ops, *everything) == everything
    assert tidemark(ops, "run") == 0
    assert "Nothing to build" in capfd.readouterr().out


def test_the_policy_is_of_no_fingerprint(ops: Project) -> None:
    with ops.here():
        before = dbt_project._variables()
        assert before is not None
        assert "tidemark" not in before
