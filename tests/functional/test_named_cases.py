"""Small cases by name, each with its rule: what arrives in which batch, and the history it gives.

All cases share a table; the case's name is part of the key. Cases about whole files or whole
loads have tables of their own, at the end; all share four builds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.project import Project

pytestmark = pytest.mark.functional

COLUMNS = {"name": "string", "k": "string", "part": "string", "x": "string", "y": "string"}
COLUMNS["seq"] = "bigint"
BATCHES = 4

# Tables of their own: their columns, their feed, and in each batch a file's name and its text.
BACK = {
    "20240101-000001000.csv": "I,1,a\nU,1,b\nU,1,a\nU,1,b\nU,1,a\nI,2,a\nD,2,\nI,2,a\n"
    "I,3,a\nD,3,\nI,3,b\nD,3,\n"
}
TIMES = {
    "20240101-000009000.csv": "I,2024-01-01 00:00:01,1,a\nU,2024-01-01 00:00:02,1,b\n"
    "U,2024-01-01 00:00:02,1,c\n"
}
HIDDEN = {
    "20240101-000000000.csv": "I,2024-01-01 00:00:01,1,a,1\n",
    "20240101-000001000.csv": "U,2024-01-01 00:00:05,1,b,2\n",
    "20240101-000002000.csv": "D,2024-01-01 00:00:05,1,,3\n",
    "20240101-000003000.csv": "I,2024-01-01 00:00:09,1,c,4\n",
}
EXTRACTS = {
    "a.csv": "id,x\n1,a\n2,a\n3,a\n",
    "b.csv": "id,x\n1,a\n2,a\n3,a\n",
    "c.csv": "id,x\n1,a\n2,c\n",
}
EXTRACTED_AT = {"a.csv": 1_704_067_201, "b.csv": 1_704_067_205, "c.csv": 1_704_067_205}


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
    """All cases, built batch by batch."""
    project = module_project()
    key = ["name", "k", "part"]
    with_seq = {"sequence": ["seq"], "timestamp_column": "ts"}
    project.add("named.cases", COLUMNS, key, **with_seq)
    model = "models/history/named/hist_named__cases.sql"
    text = (project.folder / model).read_text()
    project.write(model, text.replace("),\n)", "),\n    tracked=['x', 'y'],\n)"))
    columns = {"id": "int", "x": "string"}
    project.add("named.back", columns, "id")
    project.add("named.times", columns, "id", timestamp_column="ts")
    project.add("named.hidden", {**columns, "seq": "int"}, "id", **with_seq)
    project.add("named.extracts", columns, "id", format="extract")
    own = {"back": BACK, "times": TIMES, "hidden": HIDDEN, "extracts": EXTRACTS}
    for batch in range(BATCHES):
        lines = [
            _line(case.name, event)
            for case in CASES
            if batch < len(case.batches)
            for event in _lines(case.batches[batch])
        ]
        if lines:
            project.land(f"named/cases/20240101-00000{batch}000.csv", "".join(lines))
        for table, files in own.items():
            for name, content in list(files.items())[batch : batch + 1]:
                project.land(f"named/{table}/{name}", content, modified=EXTRACTED_AT.get(name))
        project.build()
    return project


@pytest.fixture(scope="module")
def found(built: Project) -> dict[str, tuple[list[str], list[str]]]:
    """Of each case the current rows and the versions, written as `Case` writes them."""
    values = ["name", "k || '/' || part", "concat(nvl(x, 'NULL'), '|', nvl(y, 'NULL'))"]
    micros = [f"unix_micros({name}) % 60000000" for name in ("valid_from", "valid_to")]
    current = built.rows("current.cur_named__cases", values, "name, k, part")
    history = built.rows(
        "history.hist_named__cases",
        [*values, *micros, "version_number"],
        "name, k, part, valid_from",
    )
    of_case: dict[str, tuple[list[str], list[str]]] = {case.name: ([], []) for case in CASES}
    for name, *row in current:
        of_case[name][0].append(" ".join(row))
    for name, key, value, start, end, number in history:
        line = (
            f"{key} {value} {start / 1e6:.8g} {'-' if end is None else f'{end / 1e6:.8g}'} {number}"
        )
        of_case[name][1].append(line)
    return of_case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_named_case(found: dict[str, tuple[list[str], list[str]]], case: Case) -> None:
    current, versions = found[case.name]
    assert versions == _lines(case.versions), case.rule
    is_open = [line for line in _lines(case.versions) if line.split()[3] == "-"]
    assert current == [" ".join(line.split()[:2]) for line in is_open], "17. current is history"


def _history(built: Project, table: str) -> list[tuple[object, ...]]:
    """(id, x, from second, to second, version number)."""
    columns = ["id", "x", "second(valid_from)", "second(valid_to)", "version_number"]
    return built.rows(f"history.hist_named__{table}", columns, "id, valid_from")


def test_back_and_forth_within_a_file(built: Project) -> None:
    """5. The row is that of its last event: a, b, a in one file is two changes, not a copy."""
    assert built.rows("current.cur_named__back", ["id", "x"]) == [(1, "a"), (2, "a")]
    assert _history(built, "back") == [(1, "a", 1, None, 1), (2, "a", 1, None, 1)]


def test_times_within_a_file(built: Project) -> None:
    """11. Changes of one file with times of their own are versions, without a sequence too."""
    assert _history(built, "times") == [(1, "a", 1, 2, 1), (1, "c", 2, None, 2)]


def test_version_numbers_go_on_after_a_hidden_version(built: Project) -> None:
    """24. A delete hides the second version, at its instant: the next insert is version 2."""
    assert _history(built, "hidden") == [(1, "a", 1, 5, 1), (1, "c", 9, None, 2)]


def test_extracts_of_one_time(built: Project) -> None:
    """2. Of two extracts of one time the one with the later name counts, in any split."""
    assert built.rows("current.cur_named__extracts", ["id", "x"]) == [(1, "a"), (2, "c")]
    assert _history(built, "extracts") == [
        (1, "a", 1, None, 1),
        (2, "a", 1, 5, 1),
        (2, "c", 5, None, 2),
        (3, "a", 1, 5, 1),
    ]
