"""`keep_changes`: old changes leave the log, and the tables stay right (docs/operate.md)."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.project import Project
from tidemark import cli, formats
from tidemark.ingest import books

pytestmark = pytest.mark.functional

COLUMNS = {"id": "int", "name": "string", "seq": "bigint"}
FEED = {"sequence": "seq", "timestamp_column": "ts", "keep_changes": "400 days"}
HISTORY = "history.hist_kept__t"
LOG = "log_kept.t"
NOW = datetime.now(UTC).replace(microsecond=0)
OLD = ("2020-01-01 00:00:00", "2020-02-01 00:00:00", "2020-03-01 00:00:00", "2020-04-01 00:00:00")


def recent(days: int) -> str:
    return f"{NOW - timedelta(days=days):%Y-%m-%d %H:%M:%S}"


def tidemark(project: Project, *arguments: str) -> int:
    with project.here():
        return cli.main(arguments)


def land(project: Project, number: int, *lines: str) -> None:
    content = "".join(f"{line}\n" for line in lines)
    project.land(f"kept/t/20240101-{number:09d}.csv", content)


def versions(project: Project, key: int) -> list[tuple[Any, ...]]:
    columns = ["name", "cast(valid_from as string)", "version_number", "is_current"]
    return project.rows(f"(select * from {HISTORY} where id = {key})", columns, "version_number")


@pytest.fixture(scope="module")
def kept(module_project: Callable[[], Project]) -> Project:
    """Three keys with old changes, and two of them with recent ones."""
    project = module_project()
    project.add("kept.t", COLUMNS, "id", **FEED)
    project.tag_subject("kept.t", "person")
    project.write(
        "tests/complete.sql",
        "{{ tidemark.test_log_is_complete(source('kept', 't'), 'kept', 't') }}",
    )
    land(
        project,
        1,
        *(f"I,{OLD[0]},{key},a{key},1" for key in (1, 2, 3)),
        *(f"U,{OLD[1]},{key},b{key},2" for key in (1, 2)),
        f"U,{OLD[3]},1,c1,4",
    )
    land(project, 2, f"U,{recent(20)},1,e1,6", f"U,{recent(20)},2,e2,6")
    assert tidemark(project, "run") == 0
    return project


def test_a_log_is_cut_and_the_tables_stay_right(
    kept: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    project = kept
    known = {key: versions(project, key) for key in (1, 2, 3)}
    assert [row[0] for row in known[1]] == ["a1", "b1", "c1", "e1"]
    rows = project.spark.table(LOG).count()

    capfd.readouterr()
    assert tidemark(project, "maintain", "--dry-run", "kept.t") == 0
    assert "The log of kept.t would be cut: changes from before 20" in capfd.readouterr().out
    assert project.spark.table(LOG).count() == rows
    assert tidemark(project, "maintain", "kept.t") == 0
    assert "Cut the log of kept.t: deleted 3 changes from before 20" in capfd.readouterr().out
    assert project.spark.table(LOG).count() == rows - 3
    properties = project.spark.sql(f"show tblproperties {LOG} ('tidemark.cut')").collect()
    day = json.loads(properties[0]["value"])["before"][:10]
    # The suite may have begun before midnight.
    assert day in {f"{NOW - timedelta(days=each):%Y-%m-%d}" for each in (400, 399)}
    # Not again, before a tenth of the time has passed.
    assert tidemark(project, "maintain", "kept.t") == 0
    assert "Cut" not in capfd.readouterr().out

    # Two changes are too late: one by its time, one by its sequence. The others find their place,
    # also behind what the log has lost.
    too_late = (f"U,{OLD[2]},1,late,3", f"U,{recent(10)},1,less,3", f"U,{recent(10)},3,same,1")
    land(project, 3, *too_late, f"U,{recent(30)},1,d1,5", f"U,{recent(40)},2,d2,5")
    assert tidemark(project, "run") == 0
    # The tests share one lake.
    letters = "(select * from tidemark.dead_letter where source_name = 'kept')"
    no_more = f"{day}, and the log keeps no"
    last = f"that of the key's last change from before {no_more}"
    order = f"its place in the order is not after {last}"
    assert project.rows(letters, ["position", "column", "value", "reason"], "position") == [
        (1, "ts", OLD[2], f"changed before {no_more} changes from before (keep_changes)"),
        (2, "seq", "3", f"{order} earlier changes (keep_changes)"),
        (3, "seq", "1", f"{order} earlier changes (keep_changes)"),
    ]
    expected = {
        1: [*_closed(known[1][:3]), ("d1", recent(30), 4, False), ("e1", recent(20), 5, True)],
        2: [*_closed(known[2][:2]), ("d2", recent(40), 3, False), ("e2", recent(20), 4, True)],
        3: known[3],
    }
    assert {key: versions(project, key) for key in expected} == expected
    assert project.dbt("test", "--select", "complete").success
    assert project.dbt("build", "--full-refresh", "--select", "hist_kept__t").success
    assert {key: versions(project, key) for key in expected} == expected


@pytest.mark.slow
def test_what_needs_changes_that_are_gone_is_refused_and_an_erasure_needs_none(
    kept: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    project = kept
    assert tidemark(project, "maintain", "kept.t") == 0
    others = {key: versions(project, key) for key in (2, 3)}
    first = project.spark.sql(formats.of_lake().versions(HISTORY)).collect()[-1]
    for arguments, said in {
        ("retract", "kept/t/20240101-000000001.csv"): "has changes from before 20",
        ("retract", "kept/t/{a}.csv"): "Nothing of 'kept/t/{a}.csv' has landed",
        ("restore", "hist_kept__t", "--to", str(first["timestamp"])): "was cut at 20",
    }.items():
        capfd.readouterr()
        assert tidemark(project, *arguments) == 1
        assert said in capfd.readouterr().err
    project.write(
        "models/history/kept/hist_known.sql",
        "{{ tidemark.history_from_changes(ref('stg_kept__t'), tidemark.feed('kept', 't'), "
        "bitemporal=true) }}",
    )
    result = project.dbt("build", "--select", "hist_known")
    assert not result.success
    (project.folder / "models/history/kept/hist_known.sql").unlink()

    # An erasure also concerns the versions that only the history has.
    assert tidemark(project, "erase", "person", "--key", "1", "--keep-files") == 0
    assert versions(project, 1) == []
    assert {key: versions(project, key) for key in (2, 3)} == others


@pytest.mark.slow
def test_changes_after_a_reload_are_not_too_late(
    module_project: Callable[[], Project], capfd: pytest.CaptureFixture[str]
) -> None:
    project = module_project()
    project.add("again.t", COLUMNS, "id", max_dead_letters=0, **FEED)
    load, changes = "again/t/LOAD00000001.csv", "again/t/20240101-{:09d}.csv"
    project.land(load, f"{OLD[0]},1,a,0\n{OLD[0]},2,a,0\n", modified=1_577_836_800)
    old = [f"U,{OLD[1]},{key},x,6\nU,{OLD[2]},{key},b,7\n" for key in (1, 2)]
    project.land(changes.format(1), "".join(old))
    assert tidemark(project, "land") == 0
    assert tidemark(project, "maintain", "--dry-run", "again.t") == 0
    told = capfd.readouterr().out
    assert "The log of again.t would not be cut: cur_again__t, hist_again__t, stg_again__t" in told
    assert tidemark(project, "run") == 0
    assert tidemark(project, "maintain", "again.t", "--vacuum-after", "0 hours", "--force") == 0
    # What the cut has replaced is gone, too.
    place = books.place("log_again.t")
    log = formats.of_lake().look("log_again.t", None)
    assert log and len([*Path(place).rglob("*.parquet")]) == log.files

    # The reload begins the order anew: its changes apply on top, whatever their sequence.
    yesterday = NOW - timedelta(days=1)
    loaded = f"{yesterday:%Y-%m-%d %H:%M:%S}"
    project.land(
        load, "".join(f"{loaded},{key},c,0\n" for key in (1, 2)), modified=yesterday.timestamp()
    )
    later = f"again/t/{NOW:%Y%m%d-%H%M%S}000.csv"
    project.land(later, f"U,{recent(0)},1,d,3\n")
    project.land(changes.format(2), f"U,{recent(2)},2,less,3\n")
    assert tidemark(project, "run") == 0
    assert project.rows("current.cur_again__t", ["id", "name"], "id") == [(1, "d"), (2, "c")]
    names = project.rows("history.hist_again__t", ["id", "name"], "id, version_number")
    expected = {1: "axbcd", 2: "axbc"}
    assert names == [(key, name) for key in expected for name in expected[key]]
    letters = "(select * from tidemark.dead_letter where source_name = 'again')"
    assert project.rows(letters, ["file", "value"]) == [(changes.format(2), "3")]
    # Someone has seen to it.
    capfd.readouterr()
    assert tidemark(project, "status", "--check") == 1
    assert "again.t: 1 open dead letter" in capfd.readouterr().err
    is_open = f"superseded_by is null and file = '{changes.format(2)}'"
    accept = f"update tidemark.dead_letter set superseded_by = 0 where {is_open}"
    assert tidemark(project, "sql", accept) == 0
    assert tidemark(project, "status", "--check") == 0

    # Later loads know the reload.
    project.land(f"again/t/{NOW:%Y%m%d-%H%M%S}001.csv", f"U,{recent(0)},2,e,4\n")
    assert tidemark(project, "run") == 0
    assert project.rows("current.cur_again__t", ["id", "name"], "id") == [(1, "d"), (2, "e")]


def _closed(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(*row[:3], False) for row in rows]
