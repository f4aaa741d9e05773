"""Several feeds make one table, and a table that was loaded by hand is the state before them.

The cases are those of test_convergence.py, shared out among feeds, and the oracle is the same.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests import oracle
from tests.functional import test_convergence as convergence
from tests.functional.test_convergence import SECOND, START, VALUES, Case, Change, Table
from tests.oracle import Event, Key, Values
from tests.project import Project
from tidemark.ingest import books, landing
from tidemark.ingest.load import Load
from tidemark.runs import TablesFailedError, run
from tidemark.scaffold import add

pytestmark = pytest.mark.functional

CASES = max(convergence.CASES // 2, 4)
# The batches of the cases, by build: the second build gets what is late, and copies.
BUILDS = ((0,), tuple(range(1, convergence.BATCHES)))
OURS = ("_op", "_changed_at", "_order", "_load_id")


@dataclass
class Several:
    """A current and a history model of several feeds, and what was there before them."""

    name: str
    feeds: tuple[Table, ...]
    columns: tuple[str, ...]
    has_source: bool = False
    before: list[Event] = field(default_factory=list)
    options: str = ""
    # The tables after the first build.
    first: tuple[Any, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        return (*(["region"] if self.has_source else []), "case_id", "k")

    @property
    def relations(self) -> tuple[str, str]:
        return f"current.cur_sev__{self.name}", f"history.hist_sev__{self.name}"

    @property
    def arguments(self) -> str:
        """The arguments of the model's macro."""
        names = [table.name.split(".") for table in self.feeds]
        refs = ", ".join(f"ref('stg_{source}__{table}')" for source, table in names)
        feeds = ", ".join(f"tidemark.feed('{source}', '{table}')" for source, table in names)
        several = f"[{refs}], [{feeds}]" if len(names) > 1 else f"{refs}, {feeds}"
        return several + (", source_column='region'" if self.has_source else "") + self.options

    def expected(self) -> tuple[dict[Key, Values], list[tuple[Any, ...]]]:
        """Current and history, by the oracle: with a source column, each feed's by itself."""
        if not self.has_source:
            events = [event for table in self.feeds for event in table.settled()]
            return self._shown("", events + self.before)
        current: dict[Key, Values] = {}
        versions: list[tuple[Any, ...]] = []
        of_source = {table.name.split(".")[0]: table.settled() for table in self.feeds}
        for event in self.before:
            # Rows whose source no feed has stay as they are.
            of_source.setdefault(event.row["region"], []).append(event)
        for source, events in of_source.items():
            shown = self._shown(source, events)
            current |= shown[0]
            versions += shown[1]
        return current, sorted(versions, key=lambda version: version[:2])

    def _shown(
        self, source: str, events: Sequence[Event]
    ) -> tuple[dict[Key, Values], list[tuple[Any, ...]]]:
        prefix = (source,) if source else ()
        # A feed that lacks a column has NULL in it.
        names = {name for event in events for name in event.row} | set(self.columns)
        whole = [replace(e, row=dict.fromkeys(names) | e.row) for e in events]
        current = {
            (*prefix, *key): {name: row[name] for name in self.columns}
            for key, row in oracle.current(whole).items()
        }
        versions = [
            (
                (*prefix, *v.key),
                v.version_number,
                tuple(v.row[name] for name in self.columns),
                v.valid_from,
                v.valid_to,
            )
            for v in oracle.history(whole, VALUES)
        ]
        return current, sorted(versions, key=lambda version: version[:2])

    def found(self, project: Project, *relations: str) -> tuple[Any, Any]:
        """Current and history, as they are."""
        current, history = relations or self.relations
        width = len(self.key)
        rows = project.rows(current, (*self.key, *self.columns))
        by_key = {row[:width]: dict(zip(self.columns, row[width:], strict=True)) for row in rows}
        assert len(by_key) == len(rows), f"{current}: two rows of a key"
        times = ("unix_micros(valid_from)", "unix_micros(valid_to)")
        told = (*self.key, "version_number", *self.columns, *times)
        versions = [
            (row[:width], row[width], row[width + 1 : -2], *row[-2:])
            for row in project.rows(history, told)
        ]
        return by_key, sorted(versions, key=lambda version: version[:2])


def model_of(several: Several, kind: str, extra: str = "") -> str:
    key = f"{{{{ config(unique_key={list(several.key)}) }}}}\n" if kind == "current" else ""
    tracked = ", tracked=['x', 'y']" if kind == "history" else ""
    return f"{key}{{{{ tidemark.{kind}_from_changes({several.arguments}{tracked}{extra}) }}}}\n"


def write_models(project: Project, several: Several) -> None:
    for kind, prefix in (("current", "cur"), ("history", "hist")):
        file = f"models/{kind}/sev/{prefix}_sev__{several.name}.sql"
        project.write(file, model_of(several, kind))


def only_staging(project: Project) -> None:
    """Remove the models that each feed has for itself."""
    for file in (project.folder / "models").glob("*/*/*.sql"):
        if not file.name.startswith("stg_"):
            file.unlink()


def by_hand(project: Project, name: str, columns: str, rows: Iterable[str]) -> None:
    """A table that somebody has loaded, as a dbt source."""
    project.spark.sql("create schema if not exists by_hand")
    project.spark.sql(f"create or replace table by_hand.{name} ({columns}) using delta")
    project.spark.sql(f"insert into by_hand.{name} values {', '.join(rows)}")
    project.write(
        f"models/staging/by_hand/_{name}.yml",
        f"sources:\n  - name: by_hand_{name}\n    schema: by_hand\n"
        f"    tables: [{{name: {name}}}]\n",
    )


def event_before(number: int, key: str, row: Values, at: int) -> Event:
    """A row of a table that was loaded by hand: older than all that a feed has."""
    whole = {"case_id": number, "k": key, **row}
    return Event((number, key), "R", (), at, whole, 0, "", 0, generation=-1)


def land(project: Project, table: Table, found: dict[int, Case], batch: int, slots: range) -> None:
    """What the cases bring in this batch, in these files."""
    files = convergence.change_files(in_order=False)
    for slot in slots:
        arrivals = [
            (number, arrival.change)
            for number, case in found.items()
            for arrival in case
            if (arrival.batch, arrival.file) == (batch, slot)
        ]
        if table.truncates and slot == 0:
            change = Change("T", "", (11, 14, 12)[batch % 3], START, (None, None))
            arrivals.append((0, change))
        file = convergence.load_file(batch) if slot == -1 else files[batch, slot]
        convergence.land(project, table, file, arrivals, is_load=slot == -1)


@pytest.mark.slow
def test_tables_of_several_feeds_converge(module_project: Callable[[], Project]) -> None:
    project = module_project()
    drawn: list[Case] = convergence.drawn(convergence.cases(), 2 * CASES)
    one, other = dict(enumerate(drawn[:CASES])), dict(enumerate(drawn[CASES:]))
    # Keys may meet: one feed truncates and leaves columns out, the other has no sequence.
    eu = Table("seveu.t", True, partial=True, truncates=True)
    us = Table("sevus.t", False)
    # The same keys, in one order: a stream, a backfill, and a full load without sequences.
    stream, fill = Table("sevfill.stream", True), Table("sevfill.fill", True)
    loaded = Table("sevload.loaded", False)
    tables = (eu, us, stream, fill, loaded)
    for table in tables:
        convergence.declare(project, replace(table, shapes=()))
    only_staging(project)

    both = Several("both", (eu, us), ("x", "y", "seq"), has_source=True)
    both.options = ", before=source('by_hand_both', 'both'), before_at='since'"
    rows = []
    for number in range(0, CASES, 2):
        for source in ("seveu", "sevus", "sevelse"):
            at = START - number * SECOND if number % 4 else 0
            since = f"timestamp_micros({at})" if at else "null"
            rows.append(f"('{source}', {number}, 'ab', 'old', {since})")
            row = {"region": source, "x": None, "y": "old"}
            both.before.append(event_before(number, "ab", row, at))
    by_hand(
        project, "both", "region string, Case_ID bigint, k string, y string, since timestamp", rows
    )
    filled = Several("filled", (loaded, stream, fill), ("x", "y", "seq"))
    filled.options = ", before=source('by_hand_filled', 'filled')"
    rows = []
    for number in range(1, CASES, 2):
        rows.append(f"({number}, 'a', 'ab', 'c', '0')")
        filled.before.append(event_before(number, "a", {"x": "ab", "y": "c", "seq": 0}, 0))
    by_hand(project, "filled", "case_id int, k string, x string, y string, seq string", rows)
    models = [both, filled]
    for several in models:
        write_models(project, several)

    everything = range(-1, convergence.FILES)
    for batches in BUILDS:
        for batch in batches:
            early = {n: convergence._early_loads(case) for n, case in one.items()}
            land(project, eu, early, batch, everything)
            land(project, us, other, batch, everything)
            land(project, fill, one, batch, range(1))
            land(project, stream, one, batch, range(1, convergence.FILES))
            land(project, loaded, one, batch, range(-1, 0))
        project.build()
        for several in models:
            current, versions = several.found(project)
            expected = several.expected()
            assert (current, versions) == expected, f"{several.name} after batches {batches}"
            several.first = several.first or expected
        if batches == BUILDS[0]:
            load_id = max(
                project.rows(f"log_{table.name}", ["coalesce(max(_load_id), 0)"])[0][0]
                for table in tables
            )
    for kind, more in (("current", ""), ("history", ", tracked=['x', 'y']")):
        project.write(
            f"models/as_of/{kind}_both.sql",
            "{{ config(materialized='view', schema='as_of') }}\n"
            f"{{{{ tidemark.{kind}_as_of_load({both.arguments}, load_id={load_id}{more}) }}}}\n",
        )
    commits = [project.commits(name) for several in models for name in several.relations]
    project.build()
    assert [project.commits(name) for several in models for name in several.relations] == commits
    assert both.found(project, "as_of.current_both", "as_of.history_both") == both.first

    def content(several: Several) -> list[Any]:
        current, history = several.relations
        return [
            project.rows(current, (*several.key, *several.columns, *OURS), "1, 2, 3"),
            project.rows(history, ("version_key", *several.columns, *OURS)),
        ]

    before = [content(several) for several in models]
    names = [name.split(".")[1] for several in models for name in several.relations]
    project.build("--full-refresh", "--select", *names)
    for several, known in zip(models, before, strict=True):
        assert content(several) == known, f"{several.name} after --full-refresh"


def test_a_feed_that_fails_after_it_wrote_comes_with_the_next_run(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One watermark serves all feeds that Tidemark lands."""
    columns = {"id": "int", "name": "string"}
    for name in ("late", "early"):
        project.add(f"sevfail.{name}", columns, "id", loaded_at="2024-01-01")
        project.land(f"sevfail/{name}/LOAD00000001.csv", f"{len(name)},{name}\n")
    only_staging(project)
    several = Several("failing", (Table("sevfail.late", False), Table("sevfail.early", False)), ())
    text = model_of(several, "current").replace("['case_id', 'k']", "['id']")
    project.write("models/current/sev/cur_sev__failing.sql", text)
    with project.here():
        run()
    rows = [(4, "late"), (5, "early")]
    assert project.rows("current.cur_sev__failing", columns) == rows

    carry_out = landing._without_spark

    def dies(own: books.Books, load: Load) -> Any:
        outcome = carry_out(own, load)
        if load.feed.name == "sevfail.late":
            raise RuntimeError("it died after it wrote")
        return outcome

    for name in ("late", "early"):
        project.land(f"sevfail/{name}/20240102-000000000.csv", f"U,{len(name)},{name} again\n")
    with monkeypatch.context() as patched, project.here():
        patched.setattr(landing, "_without_spark", dies)
        with pytest.raises(TablesFailedError):
            run()
    assert project.rows("current.cur_sev__failing", columns) == rows, "one feed is not whole"
    project.land("sevfail/late/20240102-000000001.csv", "I,6,more\n")
    with project.here():
        run()
    expected = [(4, "late again"), (5, "early again"), (6, "more")]
    assert project.rows("current.cur_sev__failing", columns) == expected


TABLE = """
sources:
  - name: sevtab_{name}
    schema: bronze
    tables:
      - name: {name}
        config:
          meta:
            feed:
              format: table
              key: id
              sequence: {sequence}
              batch: batch
              changed_at: at
              delete_when: op = 'd'
        columns:
          - {{name: id, data_type: int}}
          - {{name: name, data_type: string}}
          - {{name: {sequence}, data_type: {type}}}
"""


@pytest.mark.slow
def test_tables_of_others_with_batches_of_their_own(project: Project) -> None:
    """Each feed has a watermark; a table that was loaded by hand is the state before them."""
    project.spark.sql("create schema if not exists bronze")
    for name, sequence, data_type in (("eu", "seq", "int"), ("us", "lsn", "string")):
        text = TABLE.format(name=name, sequence=sequence, type=data_type)
        project.write(f"models/staging/sevtab_{name}/_sources.yml", text)
        project.spark.sql(
            f"create or replace table bronze.{name} (op string, id int, name string, "
            f"{sequence} {data_type}, batch bigint, at timestamp) using delta"
        )
    add.write_models(project.folder, ["sevtab_eu", "sevtab_us"])
    only_staging(project)
    by_hand(project, "old", "id int, name string", ["(1, 'old')", "(2, 'old')"])
    feeds = (Table("sevtab_eu.eu", False), Table("sevtab_us.us", False))
    both = Several("regions", feeds, (), has_source=True)
    both.options = ", source_values=['EU', 'US']"
    adopted = Several("old", feeds[:1], (), options=", before=source('by_hand_old', 'old')")
    columns = ("id", "name", "year(valid_from)", "year(valid_to)")

    def build(*arguments: str) -> tuple[Any, ...]:
        project.build(*arguments)
        return (
            project.rows("current.cur_sev__regions", ("region", "id", "name"), "1, 2"),
            project.rows("current.cur_sev__old", ("id", "name")),
            project.rows("history.hist_sev__old", columns, "1, 3"),
        )

    def append(name: str, *rows: str) -> None:
        project.spark.sql(f"insert into bronze.{name} values {', '.join(rows)}")

    project.write(
        "models/current/sev/cur_sev__regions.sql",
        model_of(both, "current").replace("'case_id', 'k'", "'id'"),
    )
    for kind, prefix in (("current", "cur"), ("history", "hist")):
        text = model_of(adopted, kind).replace("'case_id', 'k'", "'id'")
        text = text.replace(", tracked=['x', 'y']", ", untracked=['seq']")
        project.write(f"models/{kind}/sev/{prefix}_sev__old.sql", text)
    append("eu", "('i', 3, 'new', 1, 1000, timestamp'2024-01-01')")
    append("us", "('i', 3, 'us', 'a', 5, timestamp'2024-01-01')")
    found = build()
    assert found[0] == [("EU", 3, "new"), ("US", 3, "us")]
    assert found[1] == [(1, "old"), (2, "old"), (3, "new")]
    # Of the one feed the batches go on below those of the other; key 1 is changed, then late.
    append("us", "('u', 3, 'us again', 'b', 6, timestamp'2024-01-02')")
    append(
        "eu",
        "('u', 1, 'late', 3, 1001, timestamp'2025-01-01')",
        "('d', 2, null, 4, 1001, timestamp'2025-01-01')",
    )
    build("--select", "path:models/current", "path:models/history")
    append("eu", "('u', 1, 'new', 2, 1002, timestamp'2024-01-01')")
    found = build("--select", "path:models/current", "path:models/history")
    assert found[0] == [("EU", 1, "late"), ("EU", 3, "new"), ("US", 3, "us again")]
    assert found[1] == [(1, "late"), (3, "new")]
    assert found[2] == [
        (1, "old", 1970, 2024),
        (1, "new", 2024, 2025),
        (1, "late", 2025, None),
        (2, "old", 1970, 2025),
        (3, "new", 2024, None),
    ]
    assert build("--full-refresh", "--select", "cur_sev__old", "hist_sev__old") == found
    # The state before is part of what the table is derived from.
    project.write(
        "models/current/sev/cur_sev__old.sql",
        model_of(replace(adopted, options=""), "current").replace("'case_id', 'k'", "'id'"),
    )
    with pytest.raises(AssertionError, match="before was old and is now not set"):
        project.build("--select", "cur_sev__old")
