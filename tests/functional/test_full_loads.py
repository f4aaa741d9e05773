"""Loads that stand for a whole table: what they lack is deleted, so a broken one is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.functional.test_landing import COLUMNS, Together, dead_letters, land
from tests.project import Project
from tidemark import formats
from tidemark.errors import ConfigError
from tidemark.ingest import ledger

pytestmark = pytest.mark.functional

DAY = 86_400
FIRST = 1_704_067_200  # 2024-01-01


def extract(ids: str) -> str:
    return "id,name\n" + "".join(f"{number},x\n" for number in ids)


def replay(project: Project) -> None:
    """As `tidemark replay` asks for it; the next landing does it."""
    feeds = project.feeds()
    with project.here():
        ledger.replay(project.spark, feeds, "test")


def entered(project: Project, table: str) -> list[tuple[Any, ...]]:
    """What the log has: (operation, file, id) in the order of loads."""
    columns = ["_op", f"regexp_extract({formats.of_lake().file_column}, '[^/]+$', 0)", "id"]
    return project.rows(f"log_{table}", columns, "_load_id, _file_at, _position, id")


@pytest.fixture(scope="module")
def together(module_project: Callable[[], Project]) -> Together:
    """Tables whose first files land together; each is a test's own."""
    project = module_project()
    project.declare("twice.t", COLUMNS, "id", format="extract")
    project.land("twice/t/a.csv", "id,name\n1,x\n2,y\n+1,z\n3,x\n3,x\n")
    project.declare("nil.t", COLUMNS, "id", format="extract")
    project.land("nil/t/a.csv", extract("12"), modified=FIRST)
    project.declare("cond.t", COLUMNS, "id", delete_when="status = 'gone'")
    project.land("cond/t/20240101-000000000.csv", "U,1,a\n")
    columns = {**COLUMNS, "chg": "string"}
    project.declare("listed.t", columns, "id", changed_columns="chg")
    text = 'U,1,a,name\nU,2,b,"name,nmae"\nI,3,c,whatever\n'
    project.land("listed/t/20240101-000000000.csv", text)
    together = Together(project, {})
    together.first = together.land()
    return together


def test_an_extract_with_a_key_twice_is_refused_and_the_dead_letter_has_the_key(
    together: Together,
) -> None:
    landed = together.first["twice.t"]
    assert (landed.rows, landed.set_aside) == (0, 1)
    ((_, _, _, value, reason),) = dead_letters(together.project, "twice")
    assert value == "id 1; id 3"
    assert reason == (
        "2 keys are in the extract more than once; the column value of tidemark.dead_letter has "
        "some of them"
    )
    assert landed.reasons == {"twice/t/a.csv": reason}


def test_an_extract_that_deletes_much_waits_for_someone_to_confirm_it(project: Project) -> None:
    project.declare("shrunk.t", COLUMNS, "id", format="extract", max_deleted_share=0.3)
    for day, ids in enumerate(["1234", "123", "1", "12", "12345"]):
        project.land(f"shrunk/t/{day}.csv", extract(ids), modified=FIRST + day * DAY)
    (landed,) = land(project)
    # 0 and 1 are good; 2 and 3 are compared with 1, for 2 was refused; 4 with 1 again.
    assert (landed.files, landed.set_aside) == (3, 2)
    remark = "shrunk/t/1.csv lacks 1 of the 4 keys of shrunk/t/0.csv, so it deletes them"
    assert list(map(str, landed.notes)) == [remark]
    reasons = [(file, reason) for file, _, _, _, reason in dead_letters(project, "shrunk")]
    assert reasons[0] == (
        "2.csv",
        "the extract lacks 2 of the 3 keys of shrunk/t/1.csv before it, which is more than "
        "max_deleted_share 0.3; if they are to be deleted: tidemark confirm shrunk/t/2.csv",
    )
    assert [file for file, _ in reasons] == ["2.csv", "3.csv"]
    (again,) = land(project)
    assert (again.files, again.set_aside) == (0, 0), "what was refused is not tried again"

    with pytest.raises(ConfigError, match=r"These are:.*shrunk/t/2\.csv, shrunk/t/3\.csv"):
        ledger.confirm(project.spark, "shrunk/t/0.csv", "test")
    assert ledger.confirm(project.spark, "shrunk/t/2.csv", "test") == "shrunk.t"
    (landed,) = land(project)
    assert (landed.files, landed.rows, landed.set_aside) == (1, 1, 0)
    assert ("T", "2.csv", None) in entered(project, "shrunk.t")
    (again,) = land(project)
    assert (again.files, again.set_aside) == (0, 0)
    for day, ids in enumerate(("1235", "125"), start=6):
        project.land("shrunk/t/5.csv", extract(ids), modified=FIRST + day * DAY)
        (landed,) = land(project)
    remark = "shrunk/t/5.csv lacks 1 of the 4 keys of its earlier version, so it deletes them"
    assert list(map(str, landed.notes)) == [remark]


def test_an_empty_extract_deletes_all_once_it_is_confirmed(together: Together) -> None:
    project = together.project
    assert together.first["nil.t"].files == 1
    project.land("nil/t/b.csv", extract(""), modified=FIRST + DAY)
    landed = together.land()["nil.t"]
    reason = (
        "the extract has no rows: it would delete every row of the table; if it is right: "
        "tidemark confirm nil/t/b.csv"
    )
    assert landed.reasons == {"nil/t/b.csv": reason}
    ledger.confirm(project.spark, "nil/t/b.csv", "test")
    landed = together.land()["nil.t"]
    assert (landed.files, landed.rows, landed.set_aside) == (1, 0, 0)
    assert entered(project, "nil.t")[-1] == ("T", "b.csv", None)


@pytest.mark.slow
def test_a_load_file_of_an_older_longer_load_waits_for_someone_to_confirm_it(
    project: Project,
) -> None:
    project.add("shorter.t", COLUMNS, "id", loaded_at="2024-01-01")
    for number, days in {"1": 31, "2": 31, "3": 0, "A": 0}.items():
        file = f"shorter/t/LOAD0000000{number}.csv"
        project.land(file, f"{int(number, 16)},x\n", modified=FIRST + days * DAY)
    # Another segment has numbers of its own; change files are no matter.
    project.land("shorter/t/SEGMENT2_LOAD00000001.csv", "20,x\n", modified=FIRST + 30 * DAY)
    project.land("shorter/t/20231201-100000000.csv", "U,1,y\n", modified=FIRST)
    (landed,) = land(project)
    assert (landed.files, landed.rows, landed.set_aside) == (4, 4, 2)
    reasons = {file: reason for file, _, _, _, reason in dead_letters(project, "shorter")}
    assert reasons == {
        f"LOAD0000000{number}.csv": "it is older than shorter/t/LOAD00000001.csv, which "
        "precedes it in the full load, so it is probably left over from another load. If it "
        "belongs to this load: "
        f"tidemark confirm shorter/t/LOAD0000000{number}.csv, or shorter/t for all"
        for number in "3A"
    }
    replay(project)
    (landed,) = land(project)
    assert (landed.rows, landed.set_aside) == (0, 2), "a replay is no confirmation"
    ledger.confirm(project.spark, "shorter/t/LOAD00000003.csv", "test")
    (landed,) = land(project)
    assert (landed.files, landed.rows, landed.set_aside) == (1, 1, 0)
    loaded = project.rows("log_shorter.t where _op = 'R'", ["id"], "cast(id as int)")
    assert [number for (number,) in loaded] == ["1", "2", "3", "20"]


@pytest.fixture(scope="module")
def reloaded(module_project: Callable[[], Project]) -> Project:
    """A DMS task's load files are written again in several ways, beside change files."""
    project = module_project()
    with_seq = {"sequence": "seq", "timestamp_column": "ts"}
    project.add("reload.plain", COLUMNS, "id", loaded_at="2024-01-01")
    project.add("reload.seq", {**COLUMNS, "seq": "int"}, "id", **with_seq)
    project.add("reload.parts", COLUMNS, "id")
    project.add("reload.mixed", COLUMNS, "id")
    project.add("reload.flagged", COLUMNS, "id", delete_when="name = 'gone'")
    project.add("reload.mended", {"id": "int", "price": "int"}, "id")
    project.add("reload.again", COLUMNS, "id", loaded_at="2024-01-01")
    project.add("reload.touched", COLUMNS, "id", loaded_at="2024-01-01")

    ts = "2024-01-0{} 00:00:00,"
    project.land("reload/plain/LOAD00000001.csv", "1,a\n2,b\n3,c\n", modified=FIRST)
    project.land("reload/seq/LOAD00000001.csv", ts.format(1) + "1,a,\n", modified=FIRST)
    project.land("reload/parts/LOAD00000001.csv", "1,a\n", modified=FIRST)
    project.land("reload/parts/LOAD00000002.csv", "2,b\n", modified=FIRST)
    project.land("reload/mixed/LOAD00000001.csv", "1,a\n", modified=FIRST)
    project.land("reload/mixed/LOAD00000002.csv", "2,b\n", modified=FIRST)
    project.land("reload/flagged/LOAD00000001.csv", "1,a\n2,gone\n", modified=FIRST)
    project.land("reload/flagged/20240102-000000000.csv", "U,1,A\n")
    project.land("reload/mended/LOAD00000001.csv", "1,10\n2,ten\n", modified=FIRST)
    for table in ("again", "touched"):
        for number, row in enumerate(("1,a\n", "2,b\n"), 1):
            project.land(f"reload/{table}/LOAD0000000{number}.csv", row, modified=FIRST + number)
        project.land(f"reload/{table}/20240102-000000000.csv", "U,1,A\nU,2,B\n")
    project.land("reload/plain/20240102-000000000.csv", "U,2,B\n")
    project.land("reload/seq/20240102-000000000.csv", f"U,{ts.format(2)}1,b,7\n")
    project.land("reload/mended/20240102-000000000.csv", "U,1,11\n")
    project.build()

    # The load is written again: 3 is gone, 1 is as it was.
    reload_at = FIRST + 2 * DAY
    project.land("reload/plain/LOAD00000001.csv", "1,a\n2,BB\n4,d\n", modified=reload_at)
    project.land("reload/seq/LOAD00000001.csv", ts.format(3) + "1,c,\n", modified=reload_at)
    # The first of two files has come so far.
    project.land("reload/parts/LOAD00000001.csv", "1,A\n", modified=reload_at)
    # Parallel tasks have written the second file first.
    project.land("reload/mixed/LOAD00000001.csv", "1,A\n", modified=reload_at + 4)
    project.land("reload/mixed/LOAD00000002.csv", "2,B\n", modified=reload_at)
    # Copied again, behind the change.
    project.land("reload/flagged/LOAD00000001.csv", "1,a\n2,gone\n", modified=reload_at)
    # The row that was refused is mended: no reload, row 1 stays as it was changed since.
    project.land("reload/mended/LOAD00000001.csv", "1,10\n2,20\n", modified=reload_at)
    # All files with the rows that they had, behind a change; and one of them alone.
    for number, row in enumerate(("1,a\n", "2,b\n"), 1):
        again = f"reload/again/LOAD0000000{number}.csv"
        project.land(again, row, modified=reload_at + number)
    project.land("reload/touched/LOAD00000001.csv", "1,a\n", modified=reload_at)
    project.build()

    # After the reload: a change with a low sequence in a later file, a late one of an early file.
    project.land("reload/seq/20240104-000000000.csv", f"U,{ts.format(4)}1,d,2\n")
    project.land("reload/seq/20240102-120000000.csv", f"U,{ts.format(2)}1,late,9\n")
    project.land("reload/parts/LOAD00000002.csv", "2,b\n", modified=reload_at + 60)
    # Copied again, with the same rows: that is no reload.
    project.land("reload/plain/LOAD00000001.csv", "1,a\n2,BB\n4,d\n", modified=FIRST + 9 * DAY)
    project.land("reload/plain/20240104-000000000.csv", "U,4,D\n")
    project.build()
    return project


def history(project: Project, table: str, value: str = "name") -> list[tuple[Any, ...]]:
    """(id, value, day of January from, to)."""
    columns = ["id", value, "day(valid_from)", "day(valid_to)"]
    return project.rows(f"history.hist_reload__{table}", columns, "id, valid_from")


@pytest.mark.slow
def test_a_reload_deletes_what_it_lacks_and_changes_what_differs(reloaded: Project) -> None:
    """19. Keys absent from it are deleted then; unchanged keys get no new version."""
    assert history(reloaded, "plain") == [
        (1, "a", 1, None),
        (2, "b", 1, 2),
        (2, "B", 2, 3),
        (2, "BB", 3, None),
        (3, "c", 1, 3),
        (4, "d", 3, 4),
        (4, "D", 4, None),
    ]
    rows = reloaded.rows("current.cur_reload__plain", ["id", "name"])
    assert rows == [(1, "a"), (2, "BB"), (4, "D")]


@pytest.mark.slow
def test_changes_after_a_reload_apply_on_top_whatever_their_sequence(reloaded: Project) -> None:
    assert reloaded.rows("current.cur_reload__seq", ["id", "name"]) == [(1, "d")]
    # `late` is of the day of `b`, and came after it: of one instant the last counts.
    assert history(reloaded, "seq") == [
        (1, "a", 1, 2),
        (1, "late", 2, 3),
        (1, "c", 3, 4),
        (1, "d", 4, None),
    ]


@pytest.mark.slow
def test_a_reload_of_several_files_is_one(reloaded: Project) -> None:
    """The second file comes a build later, and its row has not been away."""
    assert reloaded.rows("current.cur_reload__parts", ["id", "name"]) == [(1, "A"), (2, "b")]
    assert [row for row in history(reloaded, "parts") if row[0] == 2] == [(2, "b", 1, None)]


@pytest.mark.slow
def test_the_files_of_a_reload_may_come_in_any_order(reloaded: Project) -> None:
    rows = reloaded.rows("current.cur_reload__mixed", ["id", "name"], "id")
    assert rows == [(1, "A"), (2, "B")]


@pytest.mark.slow
def test_a_copied_load_file_with_a_deleted_row_is_no_reload(reloaded: Project) -> None:
    assert reloaded.rows("current.cur_reload__flagged", ["id", "name"]) == [(1, "A")]


@pytest.mark.slow
def test_a_load_written_again_with_its_rows_is_a_reload_and_a_touched_file_is_none(
    reloaded: Project,
) -> None:
    """What changed in between was lost somewhere, which is why people load again."""
    assert reloaded.rows("current.cur_reload__again", ["id", "name"]) == [(1, "a"), (2, "b")]
    assert history(reloaded, "again")[:3] == [(1, "a", 1, 2), (1, "A", 2, 3), (1, "a", 3, None)]
    assert reloaded.rows("current.cur_reload__touched", ["id", "name"]) == [(1, "A"), (2, "B")]


@pytest.mark.slow
def test_a_single_load_file_with_its_rows_is_a_reload_when_someone_says_so(
    project: Project,
) -> None:
    project.add("once.t", COLUMNS, "id")
    project.land("once/t/20240102-000000000.csv", "U,1,b\n")
    for at in (FIRST, FIRST + 5 * DAY):
        project.land("once/t/LOAD00000001.csv", "1,a\n", modified=at)
        (landed,) = land(project)
    assert "If it is a reload, run: tidemark confirm once/t/LOAD00000001.csv" in str(
        landed.notes[0]
    )
    ledger.confirm(project.spark, "once/t/LOAD00000001.csv", "test")
    (landed,) = land(project)
    assert (landed.failure, landed.rows, landed.notes) == ("", 1, [])
    assert entered(project, "once.t")[-2:] == [
        ("T", "LOAD00000001.csv", None),
        ("R", "LOAD00000001.csv", "1"),
    ]
    (again,) = land(project)
    assert not again.is_new


@pytest.mark.slow
def test_a_mended_row_of_a_load_is_no_reload(reloaded: Project) -> None:
    rows = reloaded.rows("current.cur_reload__mended", ["id", "price"])
    assert rows == [(1, 11), (2, 20)]


@pytest.mark.slow
def test_lateness_refuses_what_is_too_old(project: Project) -> None:
    feed = {"sequence": "seq", "timestamp_column": "ts", "lateness": "7 days"}
    project.add("late.t", {**COLUMNS, "seq": "int"}, "id", **feed)
    project.land("late/t/LOAD00000001.csv", "2020-01-01 00:00:00,1,a,\n")
    project.land("late/t/20240101-000000000.csv", "U,2023-06-01 00:00:00,2,b,1\n")
    project.land("late/t/20240120-000000000.csv", "U,2024-01-20 00:00:00,1,c,5\n")
    (landed,) = land(project)
    assert landed.rejected == 0, "within a load nothing is late"
    project.land("late/t/20240121-000000000.csv", "U,2024-01-13 00:00:00,1,d,4\n")
    project.land("late/t/20240122-000000000.csv", "U,2024-01-12 00:00:00,1,e,3\n")
    (landed,) = land(project)
    assert (landed.rows, landed.rejected) == (1, 1)
    (letter,) = dead_letters(project, "late")
    assert letter[2:] == (
        "ts",
        "2024-01-12 00:00:00",
        "changed more than 7 days before the newest change known (lateness)",
    )


def test_a_condition_that_is_no_sql_fails_the_table_in_words(together: Together) -> None:
    landed = together.first["cond.t"]
    assert "cond.t: delete_when 'status = 'gone'' is no condition" in landed.failure
    assert (landed.files, landed.rows) == (0, 0)


def test_a_list_of_changed_columns_must_name_columns(together: Together) -> None:
    landed = together.first["listed.t"]
    assert (landed.rows, landed.rejected) == (2, 1)
    (letter,) = dead_letters(together.project, "listed")
    assert letter[2:] == ("chg", "name,nmae", "names a column that is not declared")
