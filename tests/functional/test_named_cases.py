"""Small cases by name, each with its rule: what arrives in which batch, and the history it gives.

All cases share one table and its builds; the case's name is part of the key. A case that needs a
table of its own, because it is about a whole load, stands at the end.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.project import Project

pytestmark = pytest.mark.functional

COLUMNS = {"name": "string", "k": "string", "part": "string", "x": "string", "y": "string"}
COLUMNS["seq"] = "bigint"
BATCHES = 3


@dataclass(frozen=True)
class Case:
    """`batches` holds `op seq time key values` lines; the time is seconds (1.5, 3.000001).

    `k/part` is the key, `x|y` are the values, NULL is the word. A version is
    `key values from to number`, the open end is a dash.
    """

    name: str
    rule: str
    batches: tuple[str, ...]
    versions: str


CASES = [
    Case(
        "several_changes_in_one_batch",
        "11. One row per version, half-open.",
        ("I 1 1 a/ p|q \n U 2 2 a/ r|q \n U 3 3 a/ r|s",),
        "a/ p|q 1 2 1 \n a/ r|q 2 3 2 \n a/ r|s 3 - 3",
    ),
    Case(
        "late_event_before_the_first_version",
        "14. A late first event moves the start back.",
        ("I 5 5 a/ p|q", "", "I 2 2 a/ p|q"),
        "a/ p|q 2 - 1",
    ),
    Case(
        "late_delete",
        "14. A late delete cuts the version it falls into.",
        ("I 1 1 a/ p|q", "U 9 9 a/ p|q", "D 5 5 a/ NULL|NULL"),
        "a/ p|q 1 5 1 \n a/ p|q 9 - 2",
    ),
    Case(
        "run_split_by_a_late_event",
        "13. a@5, a@10, a@15, then b@12: a 5-12, b 12-15, a 15-.",
        ("I 5 5 a/ a|a \n U 10 10 a/ a|a", "U 15 15 a/ a|a", "U 12 12 a/ b|b"),
        "a/ a|a 5 12 1 \n a/ b|b 12 15 2 \n a/ a|a 15 - 3",
    ),
    Case(
        "neighbours_merge_when_a_late_delete_is_overtaken",
        "14. Neighbours that become equal are merged back.",
        ("I 1 1 a/ a|a \n U 5 5 a/ b|b \n U 5 5 a/ c|c", "U 9 9 a/ a|a", "U 5 5 a/ a|a"),
        "a/ a|a 1 - 1",
    ),
    Case(
        "delete_then_insert_again",
        "12. There is a gap while the key was deleted; re-insert opens a new version.",
        ("I 1 1 a/ p|q", "D 3 3 a/ NULL|NULL", "I 6 6 a/ p|q"),
        "a/ p|q 1 3 1 \n a/ p|q 6 - 2",
    ),
    Case(
        "late_event_after_an_unknown_key_was_deleted",
        "6. A late event changes nothing, also when the key was deleted since.",
        ("D 5 5 a/ NULL|NULL", "U 3 3 a/ p|q", "I 7 7 a/ r|s"),
        "a/ p|q 3 5 1 \n a/ r|s 7 - 2",
    ),
    Case(
        "tie_of_update_and_delete",
        "15. Events that share a sequence collapse to the last by rule 2.",
        (
            "I 1 1 a/ p|q \n U 2 2 a/ r|s \n D 2 2 a/ NULL|NULL",
            "I 1 1 b/ p|q \n D 2 2 b/ NULL|NULL",
            "U 2 2 b/ r|s",
        ),
        "a/ p|q 1 2 1 \n b/ p|q 1 2 1 \n b/ r|s 2 - 2",
    ),
    Case(
        "null_is_not_empty",
        "13. NULL equals NULL, NULL differs from ''.",
        ("I 1 1 a/ NULL|q", "U 2 2 a/ |q", "U 3 3 a/ NULL|q \n U 4 4 a/ NULL|q"),
        "a/ NULL|q 1 2 1 \n a/ |q 2 3 2 \n a/ NULL|q 3 - 3",
    ),
    Case(
        "values_that_read_alike_in_a_row",
        "13. ('ab','c') differs from ('a','bc').",
        ("I 1 1 a/ ab|c", "U 2 2 a/ a|bc"),
        "a/ ab|c 1 2 1 \n a/ a|bc 2 - 2",
    ),
    Case(
        "keys_that_read_alike_in_a_row",
        "Key: equality is by value and type, case-sensitive.",
        ("I 1 1 ab/c p|q \n I 1 1 a/bc r|s", "I 1 1 AB/c t|u", "D 3 3 ab/c NULL|NULL"),
        "AB/c t|u 1 - 1 \n a/bc r|s 1 - 1 \n ab/c p|q 1 3 1",
    ),
    Case(
        "old_copy_in_a_later_file",
        "3. A duplicate changes nothing, and its place in the order is the first one.",
        ("I 1 1 a/ p|q \n U 2 2 a/ r|s", "U 2 2 a/ t|u", "U 2 2 a/ r|s"),
        "a/ p|q 1 2 1 \n a/ t|u 2 - 2",
    ),
    Case(
        "clock_that_goes_back",
        "16. The sequence gives the order, the event's changed_at the time.",
        ("I 1 1 a/ p|q \n U 2 5 a/ r|s", "U 3 4 a/ t|u"),
        "a/ p|q 1 4 1 \n a/ t|u 4 - 2",
    ),
    Case(
        "two_versions_within_a_millisecond",
        "11. The surrogate key is a function of key and version start.",
        ("I 1 1.000001 a/ p|q \n U 2 1.000002 a/ r|s", "U 3 1.000003 a/ t|u"),
        "a/ p|q 1.000001 1.000002 1 \n a/ r|s 1.000002 1.000003 2 \n a/ t|u 1.000003 - 3",
    ),
]


def _value(text: str) -> str:
    return "" if text == "NULL" else f'"{text}"'


def _time(text: str) -> str:
    whole, _, part = text.partition(".")
    return f"2024-01-01 00:00:{int(whole):02d}.{part:0<6}"


def _line(name: str, event: str) -> str:
    op, seq, at, key, values = event.split()
    fields = [_value(text) for text in (name, *key.split("/"), *values.split("|"))]
    return ",".join([op, _time(at), *fields, seq]) + "\n"


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


@pytest.fixture(scope="module")
def built(module_project: Callable[[], Project]) -> Project:
    """All cases, built batch by batch, then once more."""
    project = module_project()
    key = ["name", "k", "part"]
    project.add("named.cases", COLUMNS, key, sequence=["seq"], timestamp_column="ts")
    model = "models/history/named/hist_named__cases.sql"
    text = (project.folder / model).read_text()
    project.write(model, text.replace("),\n)", "),\n    tracked=['x', 'y'],\n)"))
    for batch in range(BATCHES):
        lines = [
            _line(case.name, event)
            for case in CASES
            if batch < len(case.batches)
            for event in _lines(case.batches[batch])
        ]
        project.land(f"named/cases/20240101-00000{batch}000.csv", "".join(lines))
        project.build()
    project.build()
    return project


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_named_case(built: Project, case: Case) -> None:
    values = ["k || '/' || part", "concat(nvl(x, 'NULL'), '|', nvl(y, 'NULL'))"]
    of_case = f"where name = '{case.name}'"
    micros = "coalesce(nullif(rtrim('0', date_format({0}, 's.SSSSSS')), ''), '-')"
    times = [f"rtrim('.', {micros.format(name)})" for name in ("valid_from", "valid_to")]
    history = f"(select * from history.hist_named__cases {of_case})"
    rows = built.rows(history, [*values, *times, "version_number"], "k, part, valid_from")
    found = [" ".join(str(value) for value in row) for row in rows]
    assert found == _lines(case.versions), case.rule
    current = built.rows(f"(select * from current.cur_named__cases {of_case})", values, "k, part")
    is_open = [line.split()[:2] for line in _lines(case.versions) if line.split()[3] == "-"]
    assert [list(row) for row in current] == is_open, "17. current equals the open versions."


def test_back_and_forth_within_a_file(project: Project) -> None:
    """5. The row is that of its last event: a, b, a in one file is two changes, not a copy."""
    project.add("named.back", {"id": "int", "x": "string"}, "id")
    project.land(
        "named/back/20240101-000001000.csv",
        "I,1,a\nU,1,b\nU,1,a\nU,1,b\nU,1,a\nI,2,a\nD,2,\nI,2,a\nI,3,a\nD,3,\nI,3,b\nD,3,\n",
    )
    project.build()
    assert project.rows("current.cur_named__back", ["id", "x"]) == [(1, "a"), (2, "a")]
    versions = ["id", "x", "second(valid_from)", "is_current", "version_number"]
    assert project.rows("history.hist_named__back", versions) == [
        (1, "a", 1, True, 1),
        (2, "a", 1, True, 1),
    ]


def test_commit_times_within_a_file(project: Project) -> None:
    """11. Changes of one file with times of their own are versions, without a sequence too."""
    columns = {"id": "int", "x": "string"}
    project.add("named.times", columns, "id", timestamp_column="ts")
    project.land(
        "named/times/20240101-000009000.csv",
        "I,2024-01-01 00:00:01,1,a\nU,2024-01-01 00:00:02,1,b\nU,2024-01-01 00:00:02,1,c\n",
    )
    project.build()
    versions = ["x", "second(valid_from)", "second(valid_to)", "version_number"]
    assert project.rows("history.hist_named__times", versions, "valid_from") == [
        ("a", 1, 2, 1),
        ("c", 2, None, 2),
    ]


def test_version_numbers_go_on_after_a_hidden_version(project: Project) -> None:
    """24. The delete hides the second version, at its instant: the next insert is version 2."""
    columns = {"id": "int", "x": "string", "seq": "int"}
    project.add("named.hidden", columns, "id", sequence=["seq"], timestamp_column="ts")
    batches = [
        "I,2024-01-01 00:00:01,1,a,1\n",
        "U,2024-01-01 00:00:05,1,b,2\n",
        "D,2024-01-01 00:00:05,1,,3\n",
        "I,2024-01-01 00:00:09,1,c,4\n",
    ]
    for n, batch in enumerate(batches):
        project.land(f"named/hidden/20240101-00000{n}000.csv", batch)
        project.build()
    versions = ["x", "second(valid_from)", "second(valid_to)", "version_number"]
    assert project.rows("history.hist_named__hidden", versions, "valid_from") == [
        ("a", 1, 5, 1),
        ("c", 9, None, 2),
    ]


def test_extracts_of_one_time(project: Project) -> None:
    """2. Of two extracts of one time the one with the later name counts, in any split."""
    columns = {"id": "int", "x": "string"}
    project.add("named.dump", columns, "id", format="extract")
    project.land("named/dump/a.csv", "id,x\n1,a\n2,a\n3,a\n", modified=1_704_067_201)
    project.build()
    project.land("named/dump/b.csv", "id,x\n1,a\n2,a\n3,a\n", modified=1_704_067_205)
    project.build()
    project.land("named/dump/c.csv", "id,x\n1,a\n2,c\n", modified=1_704_067_205)
    project.build()
    assert project.rows("current.cur_named__dump", ["id", "x"]) == [(1, "a"), (2, "c")]
    versions = ["id", "x", "second(valid_from)", "second(valid_to)", "version_number"]
    assert project.rows("history.hist_named__dump", versions, "id, valid_from") == [
        (1, "a", 1, None, 1),
        (2, "a", 1, 5, 1),
        (2, "c", 5, None, 2),
        (3, "a", 1, 5, 1),
    ]
