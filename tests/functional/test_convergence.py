"""Rule 24: whatever the split, the order of arrival and the duplication, the same tables.

Many small random cases share each table (the case's number is part of the key), so that a few
builds try hundreds of them. Every table is compared with tests/oracle.py after every build.

TIDEMARK_CASES=n tries n cases, TIDEMARK_SEED=n other ones; the same seed gives the same cases.
"""

import os
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests import oracle
from tests.oracle import Event, Key, Values, Version
from tests.project import Project

pytestmark = pytest.mark.functional

CASES = int(os.environ.get("TIDEMARK_CASES", "240"))
SEED = int(os.environ.get("TIDEMARK_SEED", "7"))

BATCHES = 3
FILES = 3
# Two extracts arrive together; a late one arrives last, with one of a time that is there.
EXTRACTS = ((0,), (1, 3, 4), (2, 5))
SECOND = 1_000_000
START = 1_704_067_200 * SECOND  # 2024-01-01

KEY = ("case_id", "k")
VALUES = ("x", "y")
COLUMNS = {"case_id": "int", "k": "string", "x": "string", "y": "string"}
# Rule 13's values that must stay apart, and texts that look like something else.
KEYS = ("ab", "a", "", "AB")
ROWS = {"x": ("ab", "a", "", "NULL"), "y": ("c", "bc", "")}

REPLAY = (
    f"To repeat: TIDEMARK_SEED={SEED} TIDEMARK_CASES={CASES} "
    "python -m pytest tests/functional/test_convergence.py"
)


# --- cases ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """An event that has not arrived yet; `when` is its clock time."""

    op: str
    key: str
    seq: int
    when: int
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class Arrival:
    """A change in one file of one batch; file -1 is the initial load's."""

    batch: int
    file: int
    change: Change


Case = list[Arrival]


def _percent(draw: st.DrawFn, share: int) -> bool:
    return draw(st.integers(1, 100)) <= share


def _values(draw: st.DrawFn) -> tuple[str | None, ...]:
    return tuple(
        None if _percent(draw, 25) else draw(st.sampled_from(ROWS[name])) for name in VALUES
    )


@st.composite
def cases(draw: st.DrawFn, in_order: bool = False) -> Case:
    """The arrivals of one case, in order of arrival within each file.

    In order, each batch is newer than all before, and has no key that was deleted before:
    builds then only look at what is new.
    """
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True))
    latest: dict[str, tuple[str | None, ...]] = {}
    arrivals: Case = []
    deleted: set[str] = set()
    seq, when, floor = 10, START, 0
    if _percent(draw, 40):
        for key in keys:
            if _percent(draw, 70):
                late = not in_order and _percent(draw, 20)
                latest[key] = _values(draw)
                load_at = when + draw(st.sampled_from((0, 0, 90 * SECOND)))
                change = Change("R", key, 0, load_at, latest[key])
                arrivals.append(
                    Arrival(draw(st.integers(1, BATCHES - 1)) if late else 0, -1, change)
                )
    count = draw(st.integers(1, 12))
    batch = 0
    for n in range(count):
        due = n * BATCHES // count
        if in_order and due > batch:
            seq += 1
            floor = when = max(arrival.change.when for arrival in arrivals) + 1
            keys = [key for key in keys if key not in deleted]
        batch = due
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        known = latest.get(key)
        values = known if known and _percent(draw, 25) else _values(draw)
        op = "D" if _percent(draw, 20) else draw(st.sampled_from("IU"))
        latest[key] = values
        deleted |= {key} if op == "D" else set()
        # Some deletes carry only their key, others the row or something else.
        carried = (None, None) if op == "D" and _percent(draw, 60) else values
        change = Change(op, key, seq, when, carried)
        late = not in_order and _percent(draw, 20)
        at = draw(st.integers(batch, BATCHES - 1)) if late else batch
        arrivals.append(Arrival(at, draw(st.integers(0, FILES - 1)), change))
        while _percent(draw, 15):
            at = batch if in_order else draw(st.integers(at, BATCHES - 1))
            copied_at = when if _percent(draw, 80) else when + SECOND
            copy = replace(change, when=copied_at)
            arrivals.append(Arrival(at, draw(st.integers(0, FILES - 1)), copy))
        seq += draw(st.sampled_from((0, 1, 1, 1, 2)))
        step = draw(st.sampled_from((0, 1, 1000, SECOND, 60 * SECOND, -2 * SECOND)))
        when = max(when + step, floor)
    return draw(st.permutations(arrivals)) if _percent(draw, 10) else arrivals


@st.composite
def extracts(draw: st.DrawFn) -> list[list[Change]]:
    """What one case has in each extract: every key is there, or not, as it was or changed."""
    content: dict[str, tuple[str | None, ...]] = {}
    days = []
    for _ in range(sum(len(days) for days in EXTRACTS)):
        for key in KEYS[:2]:
            if _percent(draw, 50):
                content[key] = _values(draw)
            elif _percent(draw, 30):
                content.pop(key, None)
        rows = [Change("R", key, 0, 0, values) for key, values in content.items()]
        # A key that is in an extract twice: the later row counts.
        days.append([*rows, *(rows[:1] if _percent(draw, 10) else [])])
    return days


def drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """That many examples, the same for the same seed."""
    found: list[Any] = []

    @seed(SEED)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


# --- files ----------------------------------------------------------------------------------


@dataclass
class Table:
    """A table under test: where its files go, and every event that has landed."""

    name: str
    by_seq: bool
    tracked: tuple[str, ...] = VALUES
    events: list[Event] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        return [*KEY, *VALUES, *(["seq"] if self.by_seq else [])]

    @property
    def path(self) -> str:
        return self.name.replace(".", "/")

    @property
    def current(self) -> str:
        return f"current.cur_{self.name.replace('.', '__')}"

    @property
    def history(self) -> str:
        return f"history.hist_{self.name.replace('.', '__')}"

    @property
    def relations(self) -> list[str]:
        return [f"log_{self.name}", self.current, self.history]


def declare(project: Project, table: Table, **feed: Any) -> None:
    columns = COLUMNS | ({"seq": "bigint"} if table.by_seq else {})
    if table.by_seq:
        feed |= {"sequence": ["seq"], "timestamp_column": "ts"}
    project.add(table.name, columns, list(KEY), **feed)
    if table.by_seq:
        source, name = table.name.split(".")
        model = f"models/history/{source}/hist_{source}__{name}.sql"
        text = (project.folder / model).read_text()
        tracked = f"tracked={list(VALUES)},\n"
        project.write(model, text.replace("),\n)", f"),\n    {tracked})"))


@dataclass(frozen=True)
class File:
    """A file to land: its name below the table's folder, and its time."""

    name: str
    at: int


def change_files(in_order: bool) -> dict[tuple[int, int], File]:
    """The files of every batch; later batches bring older files too, and some share a time."""
    slots = [(batch, file) for batch in range(BATCHES) for file in range(FILES)]
    seconds = list(range(len(slots)))
    folders = [""] * len(slots)
    if not in_order:
        rng = random.Random(SEED)
        # Mostly as they arrive; two are late, two are of one time in folders of their own.
        early, late = sorted(rng.sample(range(FILES, len(slots)), 2))
        seconds[late], seconds[early - FILES] = seconds[early - FILES], seconds[late]
        one, other = rng.sample(range(len(slots)), 2)
        seconds[one], folders[one] = seconds[other], rng.choice(("0/", "z/"))
    return {
        slot: File(
            f"{folders[n]}20240101-0000{seconds[n]:02d}500.csv",
            START + seconds[n] * SECOND + SECOND // 2,
        )
        for n, slot in enumerate(slots)
    }


LOAD_AT = START + 3 * SECOND


def load_file(batch: int) -> File:
    return File(f"LOAD0000000{batch + 1}.csv", LOAD_AT + batch * SECOND)


def _text(value: str | int | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else '"' + value.replace('"', '""') + '"'


def _timestamp(micros: int) -> str:
    seconds, rest = divmod(micros - START, SECOND)
    days, seconds = divmod(seconds, 86400)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if days < 0:
        return f"2023-12-31 {clock}.{rest:06d}"
    return f"2024-01-{days + 1:02d} {clock}.{rest:06d}"


def row_of(number: int, change: Change, by_seq: bool) -> Values:
    row: Values = dict(zip(KEY, (number, change.key), strict=True))
    row |= dict(zip(VALUES, change.values, strict=True))
    return row | ({"seq": change.seq} if by_seq else {})


def land(
    project: Project,
    table: Table,
    file: File,
    arrivals: Iterable[tuple[int, Change]],
    is_load: bool = False,
) -> None:
    """Write one file of a table, and note its events."""
    lines = []
    for position, (number, change) in enumerate(arrivals, start=1):
        row = row_of(number, change, table.by_seq)
        fields = [] if is_load else [change.op]
        fields += [_timestamp(change.when)] if table.by_seq else []
        fields += [_text(row[name]) for name in table.columns]
        lines.append(",".join(fields) + "\n")
        table.events.append(
            Event(
                key=(number, change.key),
                op=change.op,
                # Without a declared sequence, a change's place in the files is its sequence.
                sequence=(change.seq,) if table.by_seq else (file.at, file.name, position),
                changed_at=change.when if table.by_seq else file.at,
                row=row,
                file_at=file.at,
                file=file.name,
                position=position,
                is_initial=is_load,
            )
        )
    if lines:
        modified = file.at / SECOND
        project.land(f"{table.path}/{file.name}", "".join(lines), modified=modified)


def land_batch(project: Project, table: Table, found: Sequence[Case], batch: int) -> None:
    """What the cases bring in this batch: its change files, and its part of the load."""
    files = change_files(in_order=table.name == "conv.in_order")
    for slot in range(-1, FILES):
        arrivals = [
            (number, arrival.change)
            for number, case in enumerate(found)
            for arrival in case
            if (arrival.batch, arrival.file) == (batch, slot)
        ]
        file = load_file(batch) if slot == -1 else files[batch, slot]
        land(project, table, file, arrivals, is_load=slot == -1)


def land_extracts(
    project: Project, table: Table, found: Sequence[list[list[Change]]], batch: int
) -> None:
    """The full extracts of this batch: a header, and every row there is."""
    for day in EXTRACTS[batch]:
        at = START + (4 if day == 5 else day) * 86400 * SECOND
        file = File(f"dump{day}.csv", at)
        place = (file.at, file.name)
        table.events.append(Event((), "T", (*place, 0), at, {}, *place, 0))
        lines = [",".join(table.columns) + "\n"]
        arrivals = [(number, change) for number, case in enumerate(found) for change in case[day]]
        for position, (number, change) in enumerate(arrivals, start=2):
            row = row_of(number, change, by_seq=False)
            lines.append(",".join(_text(row[name]) for name in table.columns) + "\n")
            key = (number, change.key)
            table.events.append(Event(key, "R", (*place, position), at, row, *place, position))
        project.land(f"{table.path}/{file.name}", "".join(lines), modified=at / SECOND)


# --- comparison -----------------------------------------------------------------------------


def _rows(project: Project, table: Table, relation: str, *extra: str) -> list[tuple[Any, ...]]:
    """(key, row, what else is asked for), as the oracle writes them."""
    query = f"select {', '.join([*table.columns, *extra])} from {relation}"
    width = len(table.columns)
    return [
        (tuple(row[: len(KEY)]), dict(zip(table.columns, row[:width], strict=True)), *row[width:])
        for row in project.spark.sql(query).collect()
    ]


def actual_history(project: Project, table: Table, *extra: str) -> list[tuple[Any, ...]]:
    """(key, row, from, to, version number, is current, what else is asked for), in order."""
    times = ("unix_micros(valid_from)", "unix_micros(valid_to)", "version_number", "is_current")
    return sorted(_rows(project, table, table.history, *times, *extra), key=lambda v: (v[0], v[2]))


def compare(project: Project, table: Table, when: str) -> None:
    """Current and history against the oracle; a difference shows the smallest case of it."""
    expected = oracle.current(table.events)
    versions = oracle.history(table.events, table.tracked)
    rows = _rows(project, table, table.current)
    found = dict(rows)
    assert len(rows) == len(found), f"{table.current}: two rows of a key ({REPLAY})"
    found_versions = actual_history(project, table)
    _check_invariants(table, found, found_versions)
    # Two tests of the oracle itself: rule 17, and no history without a current row or an end.
    assert expected == {v.key: v.row for v in versions if v.valid_to is None}

    by_case = _by_case(_version_tuple(version) for version in versions)
    found_by_case = _by_case(found_versions)
    numbers = {key[0] for key in (*expected, *found)} | by_case.keys() | found_by_case.keys()
    wrong = [
        number
        for number in numbers
        if by_case.get(number, []) != found_by_case.get(number, [])
        or _of_case(expected, number) != _of_case(found, number)
    ]
    if not wrong:
        return
    smallest = min(wrong, key=lambda n: sum(e.key[:1] in ((), (n,)) for e in table.events))
    events = [event for event in table.events if event.key[:1] in ((), (smallest,))]
    lines = [
        f"{table.name} {when}: {len(wrong)} cases differ; the smallest is case {smallest}.",
        REPLAY,
        "Events as they arrived:",
        *(f"  {_brief(event)}" for event in events),
        "Expected current:",
        *(f"  {row}" for row in _of_case(expected, smallest).values()),
        "Actual current:",
        *(f"  {row}" for row in _of_case(found, smallest).values()),
        "Expected history:",
        *(f"  {row}" for row in by_case.get(smallest, [])),
        "Actual history:",
        *(f"  {row}" for row in found_by_case.get(smallest, [])),
    ]
    pytest.fail("\n".join(lines), pytrace=False)


def _check_invariants(
    table: Table, found: dict[Key, Values], versions: Sequence[tuple[Any, ...]]
) -> None:
    where = f"{table.history} ({REPLAY})"
    is_open = [version for version in versions if version[5]]
    assert {version[0]: version[1] for version in is_open} == found, f"{where}: rule 17"
    assert len(is_open) == len(found), f"{where}: two open versions of a key"
    for version in versions:
        assert version[5] == (version[3] is None), f"{where}: is_current of {version}"
        assert version[3] is None or version[2] < version[3], f"{where}: empty {version}"
    for before, after in pairwise(versions):
        if before[0] == after[0]:
            assert before[3] is not None and before[3] <= after[2], f"{where}: overlap at {after}"


def _version_tuple(version: Version) -> tuple[Any, ...]:
    times = (version.valid_from, version.valid_to, version.version_number)
    return (version.key, version.row, *times, version.valid_to is None)


def _by_case(rows: Iterable[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for row in sorted(rows, key=lambda row: (row[0], row[2])):
        found.setdefault(row[0][0], []).append(row)
    return found


def _of_case(rows: dict[Key, Values], number: int) -> dict[Key, Values]:
    return {key: row for key, row in sorted(rows.items()) if key[0] == number}


def _brief(event: Event) -> str:
    where = f"{event.file}:{event.position}" + (" initial" if event.is_initial else "")
    row = {name: event.row.get(name) for name in VALUES}
    return f"{event.op} {event.key[1:]} seq={event.sequence} at={event.changed_at} {row} {where}"


# --- tests ----------------------------------------------------------------------------------


def test_tables_converge(module_project: Callable[[], Project]) -> None:
    project = module_project()
    print(REPLAY)
    found: list[Case] = drawn(cases(), CASES)
    ordered: list[Case] = drawn(cases(in_order=True), CASES // 2)
    dumps: list[list[list[Change]]] = drawn(extracts(), CASES // 4)
    by_file, by_seq = Table("conv.by_file", False), Table("conv.by_seq", True)
    in_order, dumped = Table("conv.in_order", True), Table("conv.extract", False)
    tables = [by_file, by_seq, in_order, dumped]
    for table in tables:
        declare(project, table, **({"format": "extract"} if table is dumped else {}))

    for batch in range(BATCHES):
        land_batch(project, by_file, found, batch)
        land_batch(project, by_seq, found, batch)
        land_batch(project, in_order, ordered, batch)
        land_extracts(project, dumped, dumps, batch)
        if batch == BATCHES - 1:
            tables += _at_once(project, by_file, by_seq, found)
        project.build()
        for table in tables:
            compare(project, table, f"after batch {batch + 1}")
        if batch > 0:
            assert "last_versions as" in _history_sql(project, in_order), "not the in-order build"

    _nothing_new_commits_nothing(project, tables)
    _rebuild_is_the_same(project, [by_file, by_seq, in_order, dumped])


def _at_once(project: Project, by_file: Table, by_seq: Table, found: Sequence[Case]) -> list[Table]:
    """The same events in one batch: the same files, or one file, where `seq` has the order."""
    same_files = Table("conv.same_files", False)
    declare(project, same_files)
    for batch in range(BATCHES):
        land_batch(project, same_files, found, batch)
    one_file = Table("conv.one_file", True)
    declare(project, one_file)
    for is_load in (True, False):
        arrivals = [
            (event.key[0], _change_of(event))
            for event in sorted(by_seq.events, key=lambda e: (e.file_at, e.file, e.position))
            if event.is_initial == is_load
        ]
        file = File("LOAD00000001.csv" if is_load else "20240101-000000000.csv", START)
        land(project, one_file, file, arrivals, is_load)
    return [same_files, one_file]


def _change_of(event: Event) -> Change:
    values = tuple(event.row[name] for name in VALUES)
    return Change(event.op, event.key[1], event.row["seq"], event.changed_at, values)


def _history_sql(project: Project, table: Table) -> str:
    source, name = table.name.split(".")
    found = list((project.folder / "target" / "compiled").rglob(f"hist_{source}__{name}.sql"))
    return found[0].read_text()


def _nothing_new_commits_nothing(project: Project, tables: Sequence[Table]) -> None:
    """Rule 25."""
    relations = [relation for table in tables for relation in table.relations]
    before = {relation: _commits(project, relation) for relation in relations}
    project.build()
    assert {relation: _commits(project, relation) for relation in relations} == before


def _commits(project: Project, relation: str) -> int:
    """As Project.commits, without a query."""
    schema, name = relation.split(".")
    warehouse = project.spark.conf.get("spark.sql.warehouse.dir") or ""
    folder = Path(warehouse.removeprefix("file:")) / f"{schema}.db" / name / "_delta_log"
    return len(list(folder.glob("*.json")))


def _rebuild_is_the_same(project: Project, tables: Sequence[Table]) -> None:
    """Rule 26, our own columns included."""
    ours = ("_op", "_order", "_changed_at", "_load_id")

    def content(table: Table) -> tuple[Any, ...]:
        current = sorted(_rows(project, table, table.current, *ours), key=lambda row: row[0])
        return current, actual_history(project, table, "version_key", *ours)

    before = [content(table) for table in tables]
    models = [name.split(".")[1] for table in tables for name in (table.current, table.history)]
    project.build("--full-refresh", "--select", *models)
    for table, known in zip(tables, before, strict=True):
        assert content(table) == known, f"{table.name} after --full-refresh ({REPLAY})"
