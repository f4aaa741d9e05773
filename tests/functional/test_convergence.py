"""Rule 24: whatever the split, the order of arrival and the duplication, the same tables.

Many small random cases share each table (the case's number is part of the key), so that a few
builds try hundreds of them. Every table is compared with tests/oracle.py after every build.

TIDEMARK_CASES=n tries n cases, TIDEMARK_SEED=n other ones; the same seed gives the same cases.
TIDEMARK_BATCHES=n lands them in n builds.
"""

import os
import random
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests import oracle
from tests.oracle import Event, Key, Values, Version
from tests.project import Project
from tidemark import formats, retention
from tidemark.dbt_plugin import project as dbt_project
from tidemark.ingest import books

pytestmark = pytest.mark.functional

CASES = int(os.environ.get("TIDEMARK_CASES", "80"))
SEED = int(os.environ.get("TIDEMARK_SEED", "7"))

BATCHES = int(os.environ.get("TIDEMARK_BATCHES", "2"))
FILES = 3
# Two extracts arrive together; a late one arrives last, with one of a time that is there.
EXTRACTS = ((0,), (1, 3, 4), (2, 5))
# Of a log that is cut in between.
CUT_EXTRACTS = ((0, 1, 3), (2, 4), (5,))
SECOND = 1_000_000
START = 1_704_067_200 * SECOND  # 2024-01-01

KEY = ("case_id", "k")
VALUES = ("x", "y")
COLUMNS = {"case_id": "int", "k": "string", "x": "string", "y": "string"}
# Rule 13's values that must stay apart, and texts that look like something else.
KEYS = ("ab", "a", "", "AB")
ROWS = {"x": ("ab", "a", "", "NULL"), "y": ("c", "bc", "")}

# In one of the tables `k` is columns of every type that a key may have: for each of KEYS a value,
# in its spellings. They differ in the last place, or are what texts often lose.
TYPED: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "at": (
        "timestamp",
        (
            ("2024-01-01 00:00:00.000001",),
            ("2024-01-01 00:00:00.000002",),
            ("2024-01-01 00:00:00", "2024-01-01"),
            ("2024-01-01 00:00:00.001", "2024-01-01T01:00:00.001000+01:00"),
        ),
    ),
    "early": (
        "timestamp",
        (
            ("0001-01-01 00:00:00",),
            ("0000-12-31 23:59:59.999999", "0001-01-01 00:59:59.999999+01:00"),
            ("1582-10-04 23:59:59.999999",),
            ("1582-10-04 23:59:59.999998",),
        ),
    ),
    "late": (
        "timestamp",
        (
            ("9999-12-31 23:59:59.999999",),
            ("9999-12-31 23:59:59.999998",),
            ("9999-12-31 23:59:59.999999-10:00",),
            ("9999-12-31 23:59:59.999998-10:00",),
        ),
    ),
    "clock": (
        "timestamp_ntz",
        (
            ("1969-12-31 23:59:59.999999",),
            ("1969-12-31 23:59:59.999998",),
            ("1970-01-01 00:00:00", "1970-01-01"),
            ("1969-12-31 23:59:59.999",),
        ),
    ),
    "day": ("date", (("2024-02-29",), ("1582-10-04",), ("0001-01-01",), ("9999-12-31",))),
    "amount": (
        "decimal(38,18)",
        (
            ("0.000000000000000001",),
            ("-0.000000000000000001",),
            ("1.1", "1.10", "+1.100"),
            ("1.100000000000000001",),
        ),
    ),
    "ratio": ("double", (("0.1",), ("0.10000000000000002",), ("NaN", "nan"), ("0.0", "-0.0"))),
    "small": ("float", (("0.1",), ("0.10000001",), ("Infinity",), ("1e10", "10000000000"))),
    "raw": ("binary", (("00",), ("0000",), ("ff", "FF"), ("fe",))),
    "flag": ("boolean", (("true", "t"), ("true",), ("false", "0"), ("false",))),
    "tiny": ("tinyint", (("127",), ("-128",), ("127", "127.0"), ("-128",))),
    "big": (
        "bigint",
        (
            ("9223372036854775807",),
            ("9223372036854775806",),
            ("0", "-0"),
            ("-9223372036854775808",),
        ),
    ),
}
# Which of these tell the keys of a case apart; the others are as for the first of KEYS.
KINDS = [(name,) for name in TYPED if name not in ("flag", "tiny")] + [("flag", "tiny")]

# Since when sequences count anew, in one of the tables.
EPOCHS = (START + 500_000, START + 60 * SECOND)

# "The value is as it was", as Debezium says it.
SAME = "__same__"

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

    In order, each batch is newer than all before, also of keys that come back after a delete:
    builds then only look at what is new.
    """
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True))
    latest: dict[str, tuple[str | None, ...]] = {}
    arrivals: Case = []
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
        batch = due
        key = draw(st.sampled_from(keys))
        known = latest.get(key)
        values = known if known and _percent(draw, 25) else _values(draw)
        op = "D" if _percent(draw, 20) else draw(st.sampled_from("IU"))
        latest[key] = values
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
        days.append([Change("R", key, 0, 0, values) for key, values in content.items()])
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


@dataclass(frozen=True)
class Shape:
    """A history model: the options that it takes, and what they mean."""

    suffix: str = ""
    arguments: str = f"tracked={list(VALUES)}"
    tracked: tuple[str, ...] = VALUES
    show_deletes: bool = False
    bitemporal: bool = False
    names: dict[str, str] = field(default_factory=dict)

    def name(self, column: str) -> str:
        return self.names.get(column, column)


PLAIN = Shape()
BY_FILE = Shape(arguments="")
DELETES = Shape("__deletes", "show_deletes=true", show_deletes=True)
RENAMED = Shape(
    "__renamed",
    "untracked=['y', 'seq'], show_deletes=true, open_end='9999-12-31', column_names="
    "{'version_key': 'k_sk', 'valid_from': 'eff', 'valid_to': 'exp', 'is_deleted': 'gone'}",
    ("case_id", "k", "x"),
    show_deletes=True,
    names={"version_key": "k_sk", "valid_from": "eff", "valid_to": "exp", "is_deleted": "gone"},
)
TRACKED_DELETES = Shape(
    "__deletes", f"tracked={list(VALUES)}, show_deletes=true", show_deletes=True
)
KNOWN = Shape("__known", "tracked=['x', 'y'], bitemporal=true", bitemporal=True)


@dataclass
class Table:
    """A table under test: where its files go, and every event that has landed."""

    name: str
    by_seq: bool
    shapes: tuple[Shape, ...] = (PLAIN,)
    partial: bool = False
    truncates: bool = False
    typed: bool = False
    events: list[Event] = field(default_factory=list)
    # How many of them were there at the last build.
    landed: int = 0
    reloads: list[int] = field(default_factory=list)
    epochs: tuple[int, ...] = ()
    # What was known after each build: the end of the build, current, history.
    known: list[tuple[int, dict[Key, Values], list[Version]]] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        return [*KEY, *VALUES, *(["seq"] if self.by_seq else [])]

    @property
    def is_extract(self) -> bool:
        return self.name.endswith(".extract")

    @property
    def path(self) -> str:
        return self.name.replace(".", "/")

    @property
    def current(self) -> str:
        return f"current.cur_{self.name.replace('.', '__')}"

    def history(self, shape: Shape) -> str:
        return f"history.hist_{self.name.replace('.', '__')}{shape.suffix}"

    @property
    def relations(self) -> list[str]:
        histories = [self.history(shape) for shape in self.shapes]
        return [f"log_{self.name}", self.current, *histories]

    def settled(self) -> list[Event]:
        """The events, each in its generation, rule 19, and in the epoch of its time."""
        return [
            replace(
                event,
                generation=sum(at <= event.file_at for at in self.reloads),
                epoch=sum(at <= event.changed_at for at in self.epochs),
            )
            for event in self.events
        ]


def declare(project: Project, table: Table) -> None:
    columns = COLUMNS | ({"seq": "bigint"} if table.by_seq else {})
    feed: dict[str, Any] = {}
    if table.is_extract:
        feed |= {"format": "extract", "max_deleted_share": 1.0}
    of_key = list(KEY)
    if table.typed:
        del columns["k"]
        columns = {name: data_type for name, (data_type, _) in TYPED.items()} | columns
        of_key = ["case_id", *TYPED]
    if table.by_seq:
        feed |= {"sequence": ["seq"], "timestamp_column": "ts"}
    if table.epochs:
        feed |= {"epochs": [_timestamp(at) for at in table.epochs]}
    if table.partial:
        columns |= {"chg": "string"}
        feed |= {"changed_columns": "chg", "unavailable_value": SAME}
        feed |= {"ignore_null_updates": ["y"], "truncate_when": "chg = 'truncate'"}
    project.add(table.name, columns, of_key, **feed)
    source, name = table.name.split(".")
    for shape in table.shapes:
        arguments = f", {shape.arguments}" if shape.arguments else ""
        key = (
            f"{{{{ config(unique_key='{shape.names['version_key']}') }}}}\n" if shape.names else ""
        )
        project.write(
            f"models/history/{source}/hist_{source}__{name}{shape.suffix}.sql",
            f"{key}{{{{ tidemark.history_from_changes(ref('stg_{source}__{name}'), "
            f"tidemark.feed('{source}', '{name}'){arguments}) }}}}\n",
        )


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


class Plain(str):
    """A text that stands in a file without quotes."""


def _text(value: str | int | None) -> str:
    if value is None:
        return ""
    if isinstance(value, Plain):
        return value
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
        left_out: frozenset[str] = frozenset()
        texts = dict(row)
        if table.partial:
            left_out, texts = _partial(number, change, row)
            row = {**texts, **dict.fromkeys(left_out)}
        if table.typed:
            del texts["k"]
            texts = _spelled(number, change.key, random.Random(f"{SEED} {file} {position}")) | texts
        is_truncate = change.op == "T"
        fields = [] if is_load else ["U" if is_truncate else change.op]
        fields += [_timestamp(change.when)] if table.by_seq else []
        fields += [_text(text) for text in texts.values()]
        lines.append(",".join(fields) + "\n")
        table.events.append(
            Event(
                key=() if is_truncate else (number, change.key),
                op=change.op,
                # Without a declared sequence, a change's place in the files is its sequence.
                sequence=(change.seq,) if table.by_seq else (file.at, file.name, position),
                changed_at=change.when if table.by_seq else file.at,
                row=row,
                file_at=file.at,
                file=file.name,
                position=position,
                is_initial=is_load,
                left_out=left_out,
            )
        )
    if lines:
        modified = file.at / SECOND
        project.land(f"{table.path}/{file.name}", "".join(lines), modified=modified)


def _spelled(number: int, key: str, rng: random.Random | None = None) -> Values:
    """What stands for a key in the typed columns; a spelling by chance, or the first."""
    kind = KINDS[number % len(KINDS)]
    nth = KEYS.index(key)
    found = {name: values[nth if name in kind else 0] for name, (_, values) in TYPED.items()}
    return {name: Plain(rng.choice(texts) if rng else texts[0]) for name, texts in found.items()}


def _key_of_typed() -> str:
    """In SQL, which of KEYS the typed columns stand for, by value."""
    whens = []
    for number, kind in enumerate(KINDS):
        for key in KEYS:
            is_it = [f"case_id % {len(KINDS)} = {number}"]
            for name in kind:
                text, data_type = _spelled(number, key)[name], TYPED[name][0]
                is_bytes = data_type == "binary"
                value = f"unhex('{text}')" if is_bytes else f"cast('{text}' as {data_type})"
                is_it.append(f"{name} <=> {value}")
            whens.append(f"when {' and '.join(is_it)} then '{key}'")
    return f"case {' '.join(whens)} else 'unknown' end as k"


def _partial(number: int, change: Change, row: Values) -> tuple[frozenset[str], Values]:
    """Which columns an update leaves out, and the texts by which it says so."""
    if change.op == "T":
        return frozenset(), {**dict.fromkeys(row), "seq": change.seq, "chg": "truncate"}
    texts = {**row, "chg": None}
    if change.op != "U":
        return frozenset(), texts
    # Copies of a change are alike.
    rng = random.Random(repr((SEED, number, change.key, change.seq, change.values)))
    left_out = set()
    if row["y"] is None:
        left_out.add("y")
    if rng.random() < 0.3:
        listed = [name for name in VALUES if rng.random() < 0.5]
        texts["chg"] = ",".join(listed) if rng.random() < 0.5 else str(listed).replace("'", '"')
        left_out |= set(VALUES) - set(listed)
    for name in VALUES:
        if rng.random() < 0.2:
            texts[name] = SAME
            left_out.add(name)
    return frozenset(left_out), texts


def land_batch(project: Project, table: Table, found: Sequence[Case], batch: int) -> None:
    """What the cases bring in this batch: its change files, and its part of the load."""
    files = change_files(in_order=table.name.startswith("conv.in_order"))
    for slot in range(-1, FILES):
        arrivals = [
            (number, arrival.change)
            for number, case in enumerate(found)
            for arrival in case
            if (arrival.batch, arrival.file) == (batch, slot)
        ]
        if table.truncates and slot == 0:
            # A truncate concerns the keys of all cases; the last one is late.
            arrivals.append((0, Change("T", "", (11, 14, 12)[batch], START, (None, None))))
        file = load_file(batch) if slot == -1 else files[batch, slot]
        land(project, table, file, arrivals, is_load=slot == -1)


def reload(project: Project, table: Table, found: Sequence[list[list[Change]]]) -> None:
    """Rule 19: the load file is written again, later, with other rows."""
    at = START + 4 * SECOND
    file = File(load_file(0).name, at)
    table.reloads.append(at)
    table.events.append(Event((), "T", (), at, {}, at, file.name, 0, is_initial=True))
    rows = [(n, replace(change, when=at)) for n, case in enumerate(found) for change in case[0]]
    land(project, table, file, rows, is_load=True)


def land_extracts(
    project: Project, table: Table, found: Sequence[list[list[Change]]], days: Iterable[int]
) -> None:
    """The full extracts of these days: a header, and every row there is."""
    for day in days:
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
    names = [_key_of_typed() if table.typed and name == "k" else name for name in table.columns]
    query = f"select {', '.join([*names, *extra])} from {relation}"
    width = len(table.columns)
    return [
        (tuple(row[: len(KEY)]), dict(zip(table.columns, row[:width], strict=True)), *row[width:])
        for row in project.spark.sql(query).collect()
    ]


def actual_history(
    project: Project, table: Table, shape: Shape, *extra: str, source: str = ""
) -> list[tuple[Any, ...]]:
    """(key, row, from, to, number, is current, is deleted, what else is asked for), in order."""
    open_end = "timestamp'9999-12-31'"
    columns = (
        f"unix_micros({shape.name('valid_from')})",
        f"unix_micros(nullif({shape.name('valid_to')}, {open_end}))",
        "version_number",
        "is_current",
        shape.name("is_deleted") if shape.show_deletes else "false",
    )
    relation = source or table.history(shape)
    return sorted(_rows(project, table, relation, *columns, *extra), key=lambda v: (v[0], v[2]))


def compare(project: Project, table: Table, when: str) -> None:
    """Current and every history against the oracle; a difference shows the smallest case of it."""
    events = table.settled()
    expected = {key: _shown(table, row) for key, row in oracle.current(events).items()}
    rows = _rows(project, table, table.current)
    found = dict(rows)
    assert len(rows) == len(found), f"{table.current}: two rows of a key ({REPLAY})"
    for shape in table.shapes:
        versions = oracle.history(events, shape.tracked, shape.show_deletes)
        shown = [replace(version, row=_shown(table, version.row)) for version in versions]
        # Two tests of the oracle itself: rule 17, and no history without a current row or an end.
        is_open = [v for v in shown if v.valid_to is None and not v.is_deleted]
        assert expected == {v.key: v.row for v in is_open}
        known_now = f"(select * from {table.history(shape)} where known_to is null)"
        found_versions = actual_history(
            project, table, shape, source=known_now if shape.bitemporal else ""
        )
        _check_invariants(table, shape, found, found_versions)
        wanted = [_version_tuple(version) for version in shown]
        _agree(table, f"{table.history(shape)} {when}", expected, found, wanted, found_versions)
    shown = oracle.history(events, table.shapes[0].tracked, table.shapes[0].show_deletes)
    shown = [replace(version, row=_shown(table, version.row)) for version in shown]
    table.known.append((time.time_ns() // 1000, expected, shown))


def _shown(table: Table, row: Values) -> Values:
    """The columns that the tables have."""
    return {name: row[name] for name in table.columns}


def _agree(
    table: Table,
    what: str,
    expected: dict[Key, Values],
    found: dict[Key, Values],
    versions: Iterable[tuple[Any, ...]],
    found_versions: Iterable[tuple[Any, ...]],
) -> None:
    by_case = _by_case(versions)
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
    events = table.settled()
    smallest = min(wrong, key=lambda n: sum(e.key[:1] in ((), (n,)) for e in events))
    lines = [
        f"{what}: {len(wrong)} cases differ; the smallest is case {smallest}.",
        REPLAY,
        "Events as they arrived:",
        *(f"  {_brief(event)}" for event in events if event.key[:1] in ((), (smallest,))),
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
    table: Table, shape: Shape, found: dict[Key, Values], versions: Sequence[tuple[Any, ...]]
) -> None:
    where = f"{table.history(shape)} ({REPLAY})"
    is_open = [version for version in versions if version[5]]
    assert {version[0]: version[1] for version in is_open} == found, f"{where}: rule 17"
    assert len(is_open) == len(found), f"{where}: two open versions of a key"
    for version in versions:
        is_last = version[3] is None and not version[6]
        assert version[5] == is_last, f"{where}: is_current of {version}"
        assert version[3] is None or version[2] < version[3], f"{where}: empty {version}"
    for before, after in pairwise(versions):
        if before[0] == after[0]:
            assert before[3] is not None and before[3] <= after[2], f"{where}: overlap at {after}"


def _version_tuple(version: Version) -> tuple[Any, ...]:
    times = (version.valid_from, version.valid_to, version.version_number)
    is_current = version.valid_to is None and not version.is_deleted
    return (version.key, version.row, *times, is_current, version.is_deleted)


def _by_case(rows: Iterable[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for row in sorted(rows, key=lambda row: (row[0], row[2])):
        found.setdefault(row[0][0], []).append(row)
    return found


def _of_case(rows: dict[Key, Values], number: int) -> dict[Key, Values]:
    return {key: row for key, row in sorted(rows.items()) if key[0] == number}


def _brief(event: Event) -> str:
    where = f"{event.file}:{event.position}" + (" initial" if event.is_initial else "")
    where += f" generation {event.generation}" if event.generation else ""
    row = {name: "..." if name in event.left_out else event.row.get(name) for name in VALUES}
    return f"{event.op} {event.key[1:]} seq={event.sequence} at={event.changed_at} {row} {where}"


# --- tests ----------------------------------------------------------------------------------


# Builds must not read what these tables hold; and how they were after a load is asked for.
GOING_ON = ("conv.by_seq", "conv.in_order", "conv.in_order_partial")
AS_OF_LOAD = ("conv.partial", "conv.extract", "conv.typed", "conv.known")
# A rebuild of these would be that of `cut.by_file`, and of `typed` and `known`.
NOT_REBUILT = ("conv.by_file", "conv.by_epoch")
T = TypeVar("T")
# With options that seldom differ from others.
_RARER = pytest.param("rarer", marks=pytest.mark.slow)


@pytest.mark.parametrize("which", ["usual", _RARER])
def test_tables_converge(module_project: Callable[[], Project], which: str) -> None:
    project = module_project()
    print(REPLAY)
    found: list[Case] = drawn(cases(), CASES)
    ordered: list[Case] = drawn(cases(in_order=True), CASES // 2)
    dumps: list[list[list[Change]]] = drawn(extracts(), CASES // 4)
    if which == "usual":
        tables = [
            Table("conv.by_file", False, (BY_FILE,)),
            Table("conv.by_seq", True, (PLAIN, RENAMED)),
            Table("conv.partial", True, (PLAIN, KNOWN), partial=True, truncates=True),
            Table("conv.by_epoch", True, typed=True, epochs=EPOCHS),
            Table("conv.extract", False, (BY_FILE, DELETES)),
        ]
    else:
        tables = [
            Table("conv.in_order", True),
            Table("conv.in_order_partial", True, partial=True),
            Table("conv.typed", True, typed=True),
            Table("conv.known", True, (PLAIN, KNOWN), epochs=EPOCHS),
        ]
    for table in tables:
        declare(project, table)

    for batch in range(BATCHES):
        for table in tables:
            if table.is_extract:
                land_extracts(project, table, dumps, EXTRACTS[batch])
                continue
            is_in_order = table.name.startswith("conv.in_order")
            land_batch(project, table, _of_table(table, ordered if is_in_order else found), batch)
            if batch == BATCHES - 1 and (table.truncates or table.epochs):
                reload(project, table, dumps)
        going_on = [table for table in tables if batch > 0 and table.name in GOING_ON]
        lost = [_lose_what_need_not_be_read(project, table) for table in going_on]
        project.build()
        for table, version in zip(going_on, lost, strict=True):
            _find_again(project, table, version)
        _side_by_side(partial(compare, project, when=f"after batch {batch + 1}"), tables)
        for table in tables:
            table.landed = len(table.events)
            if batch > 0 and table.name.startswith("conv.in_order"):
                sql = _history_sql(project, table)
                assert "last_versions as" in sql, "not a build that goes on"
                assert "late_keys as" not in sql, "keys that come in order read the log"

    for table in tables:
        if KNOWN in table.shapes:
            _knowledge_is_kept(project, table)
    as_of_load = [table for table in tables if table.name in AS_OF_LOAD]
    _write_as_of_load(project, as_of_load)
    _nothing_new_commits_nothing(project, tables)
    _compare_as_of_load(project, as_of_load)
    _rebuild_is_the_same(project, [each for each in tables if each.name not in NOT_REBUILT])


@pytest.mark.slow
@pytest.mark.parametrize("which", ["usual", _RARER])
def test_tables_of_cut_logs_converge(module_project: Callable[[], Project], which: str) -> None:
    """Old changes that go between two builds leave the tables, and their rebuild, as they were."""
    project = module_project()
    found: list[Case] = [_early_loads(case) for case in drawn(cases(), CASES)]
    dumps: list[list[list[Change]]] = drawn(extracts(), CASES // 4)
    if which == "usual":
        shapes = (PLAIN, TRACKED_DELETES)
        tables = [
            Table("cut.partial", True, shapes, partial=True, truncates=True),
            Table("cut.extract", False, (BY_FILE, DELETES)),
        ]
    else:
        tables = [
            Table("cut.by_file", False, (BY_FILE,)),
            Table("cut.by_seq", True, (PLAIN, RENAMED)),
            Table("cut.by_epoch", True, epochs=EPOCHS),
        ]
    cut_logs_converge(project, tables, found, dumps)


def cut_logs_converge(
    project: Project,
    tables: Sequence[Table],
    found: Sequence[Case],
    dumps: Sequence[list[list[Change]]],
) -> None:
    """Build each batch, compare the tables, and cut the logs; then build them anew."""
    for table in tables:
        declare(project, table)
    cuts: dict[str, int] = {}
    for batch in range(BATCHES):
        for table in tables:
            if table.is_extract:
                land_extracts(project, table, dumps, CUT_EXTRACTS[batch])
            else:
                land_batch(project, table, _of_table(table, found), batch)
        too_late: dict[str, int] = {}
        for table in tables:
            if batch:
                too_late[table.name] = _leave_out_what_is_too_late(table, cuts[table.name])
        project.build()
        for table in tables:
            if batch and not table.is_extract:
                _is_in_the_dead_letter(project, table, too_late[table.name])
            table.landed = len(table.events)
            compare(project, table, f"of a cut log, after batch {batch + 1}")
            cuts[table.name] = _cut(project, table)
    _rebuild_is_the_same(project, tables)


def _of_table(table: Table, found: Sequence[Case]) -> Sequence[Case]:
    """The cases as they come to a table."""
    if table.epochs:
        return [_counted_anew(_early_loads(case)) for case in found]
    return [_early_loads(case) for case in found] if table.truncates else found


def _cut(project: Project, table: Table) -> int:
    """Cut the log in the middle of its times; gives where."""
    times = sorted(
        event.file_at if table.is_extract else event.changed_at for event in table.events
    )
    at = times[len(times) * 2 // 3] + 1
    log = f"log_{table.name}"
    with project.here():
        feeds = {feed.name: feed for feed in dbt_project.current().feeds}
        before = datetime.fromtimestamp(at / SECOND, UTC)
        count = project.spark.table(log).count()
        gone = retention.cut(books.of(project.spark), feeds[table.name], before)
    # A few cases may have nothing to delete.
    assert gone or CASES < 80, f"the cut of {log} deleted nothing ({REPLAY})"
    # The second cut also deletes what builds left out since the first.
    assert project.spark.table(log).count() <= count - gone
    return at


def _is_in_the_dead_letter(project: Project, table: Table, count: int) -> None:
    source, name = table.name.split(".")
    letters = project.spark.table("tidemark.dead_letter").where("code like '%BEFORE_%'")
    found = letters.where(f"source_name = '{source}' and table_name = '{name}'").count()
    assert found == count, f"dead letters of {table.name} ({REPLAY})"


def _leave_out_what_is_too_late(table: Table, cut_at: int) -> int:
    """Forget the events that landing refuses after a cut; gives how many there are."""

    def is_old(event: Event) -> bool:
        return (event.file_at if table.is_extract else event.changed_at) < cut_at

    settled = table.settled()
    last_old: dict[Key, Any] = {}
    for event in settled[: table.landed]:
        if is_old(event):
            last_old[event.key] = max(last_old.get(event.key, event.turn), event.turn)
    of_all = last_old.get(())

    def is_too_late(event: Event) -> bool:
        if is_old(event):
            return True
        known = [turn for turn in (last_old.get(event.key), of_all) if turn is not None]
        return bool(event.key and known and event.turn <= max(known))

    new = zip(table.events[table.landed :], settled[table.landed :], strict=True)
    taken = [event for event, turned in new if not is_too_late(turned)]
    count = len(table.events) - table.landed - len(taken)
    table.events[table.landed :] = taken
    return count


def _lose_what_need_not_be_read(project: Project, table: Table) -> int:
    """Take rows out of the log that the next build must not read; gives the log's version before.

    A key all of whose new changes are newer, in order and in time, than all that are known goes on
    from what the tables hold, however late those of other keys are. Deletes are always read.
    """
    newest: dict[Key, tuple[int, int]] = {}
    for event in table.events[: table.landed]:
        seq, at = newest.get(event.key, (0, 0))
        newest[event.key] = max(seq, _number(event)), max(at, event.changed_at)
    late = {
        event.key
        for event in table.events[table.landed :]
        if (known := newest.get(event.key))
        and (_number(event) <= known[0] or event.changed_at <= known[1])
    }
    going_on = {event.key for event in table.events[table.landed :]} & set(newest) - late
    assert going_on, f"no key of {table.name} goes on ({REPLAY})"
    assert late or "in_order" in table.name, f"no key of {table.name} is late ({REPLAY})"
    log = f"log_{table.name}"
    version = project.newest_version(log)
    keys = ", ".join(f"('{number}', '{key}')" for number, key in sorted(going_on))
    project.spark.sql(f"delete from {log} where not _is_delete and ({', '.join(KEY)}) in ({keys})")
    return version


def _number(event: Event) -> int:
    return 0 if event.is_initial else event.sequence[0]


def _find_again(project: Project, table: Table, version: int) -> None:
    """The log has all its rows again."""
    log, file = f"log_{table.name}", formats.of_lake().file_column
    project.spark.sql(
        f"insert into {log} select * from {log} version as of {version} as known "
        f"left anti join {log} as there on known._load_id = there._load_id "
        f"and known.{file} = there.{file} and known._position = there._position"
    )


def _early_loads(case: Case) -> Case:
    """The case with an initial load that is whole in the first batch."""
    return [replace(arrival, batch=0) if arrival.file == -1 else arrival for arrival in case]


def _counted_anew(case: Case) -> Case:
    """The case with sequences that go back at the start of each epoch."""

    def counted(change: Change) -> Change:
        return replace(change, seq=change.seq - 7 * sum(at <= change.when for at in EPOCHS))

    return [replace(arrival, change=counted(arrival.change)) for arrival in case]


def _knowledge_is_kept(project: Project, table: Table) -> None:
    """The bitemporal history says what was known after each build."""
    for nth, (at, expected, versions) in enumerate(table.known, start=1):
        then = (
            f"(select * from {table.history(KNOWN)} where unix_micros(known_from) <= {at} "
            f"and (unix_micros(known_to) > {at} or known_to is null))"
        )
        found = [
            (*version[:5], version[3] is None, False)
            for version in actual_history(project, table, KNOWN, source=then)
        ]
        wanted = [_version_tuple(version) for version in versions]
        what = f"{table.history(KNOWN)} as known after build {nth}"
        _agree(table, what, expected, expected, wanted, found)


def _write_as_of_load(project: Project, tables: Sequence[Table]) -> None:
    """Views of the tables as of their second load, for the next build."""
    for table in tables:
        source, name = table.name.split(".")
        loads = [row[0] for row in project.rows(f"log_{table.name}", ["distinct _load_id"])]
        shape = table.shapes[0]
        options = f", {shape.arguments}" if shape.arguments else ""
        for kind, arguments in (("current", ""), ("history", options)):
            project.write(
                f"models/as_of/{kind}_{name}.sql",
                f"{{{{ config(materialized='view', schema='as_of') }}}}\n"
                f"{{{{ tidemark.{kind}_as_of_load(ref('stg_{source}__{name}'), "
                f"tidemark.feed('{source}', '{name}'), "
                f"{loads[1]}{arguments}) }}}}\n",
            )


def _compare_as_of_load(project: Project, tables: Sequence[Table]) -> None:
    """A table as of a load is what it was after that load."""
    for table in tables:
        name = table.name.split(".")[1]
        _, expected, versions = table.known[1]
        found = dict(_rows(project, table, f"as_of.current_{name}"))
        shown = actual_history(project, table, table.shapes[0], source=f"as_of.history_{name}")
        wanted = [_version_tuple(version) for version in versions]
        _agree(table, f"{table.name} as of its second load", expected, found, wanted, shown)


def _history_sql(project: Project, table: Table) -> str:
    source, name = table.name.split(".")
    found = list((project.folder / "target" / "compiled").rglob(f"hist_{source}__{name}.sql"))
    return found[0].read_text()


def _nothing_new_commits_nothing(project: Project, tables: Sequence[Table]) -> None:
    """Rule 25."""
    relations = [relation for table in tables for relation in table.relations]
    before = {relation: _commits(project, relation) for relation in relations}
    assert all(before.values())
    project.build()
    assert {relation: _commits(project, relation) for relation in relations} == before


def _commits(project: Project, relation: str) -> int:
    """As Project.commits; of a Delta table without a query."""
    schema, name = relation.split(".")
    warehouse = project.spark.conf.get("spark.sql.warehouse.dir") or ""
    folder = Path(warehouse.removeprefix("file:")) / f"{schema}.db" / name / "_delta_log"
    return len(list(folder.glob("*.json"))) or project.commits(relation)


def _side_by_side(read: Callable[[Table], T], tables: Sequence[Table]) -> list[T]:
    """What it reads of each table, in their order."""
    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(read, tables))


def _rebuild_is_the_same(project: Project, tables: Sequence[Table]) -> None:
    """Rule 26, our own columns included."""
    ours = ("_op", "_order", "_changed_at", "_load_id")

    def content(table: Table) -> tuple[Any, ...]:
        current = sorted(_rows(project, table, table.current, *ours), key=lambda row: row[0])
        histories = [
            sorted(
                actual_history(project, table, shape, shape.name("version_key"), *ours),
                key=lambda row: row[7],
            )
            for shape in table.shapes
        ]
        return current, histories

    before = _side_by_side(content, tables)
    models = [name.split(".")[-1] for table in tables for name in table.relations[1:]]
    project.build("--full-refresh", "--select", *models)
    for table, known, found in zip(tables, before, _side_by_side(content, tables), strict=True):
        (current, histories), (current_now, histories_now) = known, found
        pairs = zip([current, *histories], [current_now, *histories_now], strict=True)
        differ = [row for was, now in pairs for row in (*was, *now) if (row in was) != (row in now)]
        assert found == known, f"{table.name} after --full-refresh ({REPLAY}): {differ[:6]}"
