"""Tables in Iceberg's format: the same rows as in Delta tables, and the traps on the way.

One project is built three times. Its tables are Iceberg's; `..._delta` are the same models as Delta
tables. Scenarios and random cases run on Iceberg as they do on Delta.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pyspark.sql.functions import lit

from tests import scenario
from tests.functional import test_convergence as convergence
from tests.functional import test_erase as erasures
from tests.functional import test_scenarios as scenarios
from tests.project import Project
from tests.scenario import Scenario
from tests.thrift_server import running
from tidemark import cli, formats, page
from tidemark.dbt_plugin import project as dbt_project
from tidemark.dbt_plugin import relations
from tidemark.errors import TidemarkError
from tidemark.formats.iceberg import Iceberg
from tidemark.ingest import books
from tidemark.spark import session, spark_line

pytestmark = [pytest.mark.functional, pytest.mark.slow]

COLUMNS = {"id": "int", "name": "string", "amount": "decimal(9, 2)", "small": "smallint"}
FILES = {
    1: {"LOAD00000001.csv": "1,one,1.00,1\n2,two,2.00,2\n3,three,3.00,3\n"},
    2: {
        "20240102-100000000.csv": "U,1,uno,1.00,1\nU,1,eins,1.50,1\nD,2,,,\nI,4,four,4.00,4\n",
        "20240102-110000000.csv": "U,3,drei,3.00,\n",
    },
    # Late, new, and back after a delete.
    3: {
        "20240102-103000000.csv": "U,3,tre,3.00,3\n",
        "20240103-100000000.csv": "I,2,zwei,2.00,2\nI,5,five,5.00,5\n",
    },
}
MODELS = {
    "marts/ice_dim.sql": "select id, name, amount from {{ ref('cur_ice__orders') }}",
    "marts/ice_view.sql": """
{{ config(materialized='view') }}
select dim.*
from {{ ref('ice_dim') }} as dim
join {{ ref('ice_codes') }} as codes on codes.n = dim.id
""",
    "marts/ice_merged.sql": """
{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
select id, name from {{ ref('cur_ice__orders') }}
""",
    "marts/ice_python.py": """
def model(dbt, session):
    dbt.config(materialized="table")
    return dbt.ref("ice_dim").select("id", "name")
""",
}
# Two tables with one name, at the same time.
SNAPSHOTS = "snapshots:" + "".join(
    f"""
  - name: ice_twin_{name}
    relation: ref('ice_dim')
    config:
      {{alias: ice_twin, schema: ice_snaps_{name}, file_format: {file_format}, unique_key: id,
       strategy: check, check_cols: {columns}, hard_deletes: {deletes}}}"""
    for name, file_format, columns, deletes in (
        ("a", "iceberg", "all", "new_record"),
        ("b", "iceberg", "[amount]", "invalidate"),
        ("a_delta", "delta", "all", "new_record"),
        ("b_delta", "delta", "[amount]", "invalidate"),
    )
)


def use_iceberg(project: Project, deletion_vectors_from: int | None = None) -> None:
    """Every table of the project is Iceberg's, by the setting that a user writes."""
    file = project.folder / "dbt_project.yml"
    settings = yaml.safe_load(file.read_text())
    models = settings["models"]["showcase"]
    models["+file_format"] = "iceberg"
    settings["snapshots"]["+file_format"] = settings["seeds"]["+file_format"] = "iceberg"
    if deletion_vectors_from is not None:
        for layer in ("current", "history"):
            models[layer]["+deletion_vectors_from"] = deletion_vectors_from
    file.write_text(yaml.safe_dump(settings, sort_keys=False))


@dataclass
class Lab:
    """The project, and how often each table had been written after each build."""

    project: Project
    commits: list[dict[str, int]] = field(default_factory=list)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.project.spark.sql(query).collect()]

    def written(self) -> dict[str, int]:
        return {table: written(self.project, table) for table in TABLES}

    def refused(self, *arguments: str) -> str:
        result = self.project.dbt(*arguments)
        assert not result.success
        messages = [each.message for each in getattr(result.result, "results", [])]
        return " ".join([str(result.exception or ""), *filter(None, messages)])


MEMBERS = """
snapshots:
  - name: club_members
    relation: ref('cur_club__people')
    config:
      {schema: snapshots, unique_key: id, strategy: check, check_cols: [name],
       tblproperties: {format-version: 3, write.merge.mode: merge-on-read}}
"""
TABLES = (
    "current.cur_ice__orders",
    "history.hist_ice__orders",
    "marts.ice_dim",
    "marts.ice_merged",
    "marts.ice_python",
    "ice_snaps_a.ice_twin",
    "ice_snaps_b.ice_twin",
)


def written(project: Project, table: str) -> int:
    """How often an Iceberg table has been written since it was created."""
    return project.spark.sql(f"select 1 from iceberg.{table}.snapshots").count()


def declare(project: Project) -> Project:
    use_iceberg(project)
    project.add("ice.orders", COLUMNS, "id", loaded_at="2024-01-01")
    for layer, name, config in (
        ("current", "cur", "unique_key='id', "),
        ("history", "hist", ""),
    ):
        own = project.folder / f"models/{layer}/ice/{name}_ice__orders.sql"
        text = own.read_text().replace("{{ config(unique_key='id') }}", "")
        project.write(
            f"models/{layer}/ice/{name}_ice__orders_delta.sql",
            f"{{{{ config({config}file_format='delta') }}}}\n{text}",
        )
    for path, text in MODELS.items():
        project.write(f"models/{path}", text)
    project.write("snapshots/ice.yml", SNAPSHOTS)
    project.write("seeds/ice_codes.csv", "n,label\n1,a\n3,\n")
    return project


def land(project: Project, batch: int) -> None:
    for name, text in FILES[batch].items():
        project.land(f"ice/orders/{name}", text)


@pytest.fixture(scope="module")
def lab(module_project: Callable[[], Project]) -> Lab:
    lab = Lab(declare(module_project()))
    for batch in FILES:
        land(lab.project, batch)
        lab.project.build("--threads", "4")
        lab.commits.append(lab.written())
    return lab


def test_the_tables_are_those_of_delta_row_for_row(lab: Lab) -> None:
    for table in TABLES[:2]:
        # A smallint is an int in Iceberg.
        own, delta = (
            sorted(map(str, lab.rows(f"select * from {name}")))
            for name in (f"iceberg.{table}", f"{table}_delta")
        )
        assert own == delta
        assert len(own) == {"current": 5, "history": 9}[table.split(".")[0]]


def test_snapshots_of_one_name_keep_their_own_versions(lab: Lab) -> None:
    """Their changes were views with one name, in the schema `default`."""
    for name, count in (("a", 9), ("b", 7)):
        columns = "id, name, amount, dbt_valid_to is null"
        columns += ", dbt_is_deleted" if name == "a" else ""
        own, delta = (
            lab.rows(f"select {columns} from {table} order by id, dbt_valid_from, {columns}")
            for table in (f"iceberg.ice_snaps_{name}.ice_twin", f"ice_snaps_{name}_delta.ice_twin")
        )
        assert own == delta
        assert len(own) == count
    for schema in ("default", "ice_snaps_a", "ice_snaps_b"):
        assert not lab.rows(f"show views in {schema} like 'ice*'")


def test_an_incremental_table_is_merged_into(lab: Lab) -> None:
    """dbt-spark did not find it, and replaced it. So the deleted key 2 would be missing."""
    assert lab.project.rows("iceberg.marts.ice_merged", ["id", "name"], "id") == [
        (1, "eins"),
        (2, "zwei"),
        (3, "drei"),
        (4, "four"),
        (5, "five"),
    ]
    assert [commits["marts.ice_merged"] for commits in lab.commits] == [1, 2, 3]


def test_a_table_is_replaced_and_never_dropped(lab: Lab) -> None:
    """Spark says `Provider: hive`, so dbt-spark dropped it: its snapshots would begin anew."""
    for table in ("marts.ice_dim", "marts.ice_python"):
        assert [commits[table] for commits in lab.commits] == [1, 2, 3]


def test_the_commit_that_creates_a_table_has_its_settings(lab: Lab) -> None:
    for table in TABLES[:2]:
        assert lab.commits[0][table] == 1
        found = dict(lab.rows(f"show tblproperties iceberg.{table}"))
        assert json.loads(found["tidemark.derived_from"])["key"] == "id integer"


def test_views_and_seeds_are_read_across_catalogs(lab: Lab) -> None:
    assert lab.rows("select id from marts.ice_view order by id") == [(1,), (3,)]
    assert lab.rows("select * from iceberg.seeds.ice_codes order by n") == [(1, "a"), (3, None)]


def test_what_one_session_writes_the_others_see(lab: Lab) -> None:
    """Iceberg's catalog keeps tables for half a minute in each session."""
    one, other = session.fresh(), session.fresh()
    one.sql("create table iceberg.marts.ice_seen using iceberg as select 1 as n")
    assert other.table("iceberg.marts.ice_seen").count() == 1
    one.sql("insert into iceberg.marts.ice_seen values (2)")
    assert other.table("iceberg.marts.ice_seen").count() == 2


def test_nothing_new_commits_nothing(lab: Lab) -> None:
    names = [table.split(".")[1] for table in TABLES[:2]]
    before = lab.written()
    lab.project.build("--select", *names, "ice_twin_a", "ice_twin_b")
    assert lab.written() == before


def test_a_full_refresh_replaces_the_table_in_one_commit(lab: Lab) -> None:
    """dbt-spark drops it first: a build that is killed would lose the table."""
    before, rows = lab.written(), lab.rows("select * from iceberg.history.hist_ice__orders")
    lab.project.build("--full-refresh", "--select", "hist_ice__orders")
    assert sorted(lab.rows("select * from iceberg.history.hist_ice__orders")) == sorted(rows)
    assert lab.written() == before | {TABLES[1]: before[TABLES[1]] + 1}


def test_docs_have_the_columns_of_all_catalogs(lab: Lab) -> None:
    assert lab.project.dbt("docs", "generate").success
    catalog = json.loads((lab.project.folder / "target" / "catalog.json").read_text())["nodes"]
    for name in ("model.showcase.ice_dim", "model.showcase.cur_ice__orders_delta"):
        assert {"id", "name", "amount"} <= catalog[name]["columns"].keys()
        # Spark would give the rows that were there when the table was created.
        assert "rows" not in catalog[name]["stats"]


@pytest.mark.parametrize(
    ("file", "was", "now", "said"),
    [
        (
            "models/marts/ice_dim.sql",
            "select",
            "{{ config(file_format='delta') }} select",
            "iceberg.marts.ice_dim is a table with file_format: iceberg, but its model now has "
            "file_format: delta. A table keeps its format, so nothing was written.",
        ),
        (
            "models/history/ice/hist_ice__orders_delta.sql",
            "delta'",
            "iceberg'",
            "history.hist_ice__orders_delta is a table with file_format: delta, but its model now "
            "has file_format: iceberg.",
        ),
        (
            "models/marts/ice_view.sql",
            "'view'",
            "'table'",
            "marts.ice_view is a view, but its model now has file_format: iceberg.",
        ),
    ],
)
def test_a_table_keeps_its_format(lab: Lab, file: str, was: str, now: str, said: str) -> None:
    model = lab.project.folder / file
    text, before = model.read_text(), lab.written()
    model.write_text(text.replace(was, now, 1))
    try:
        assert said in lab.refused("run", "--select", model.stem)
    finally:
        model.write_text(text)
    assert lab.written() == before


def test_what_the_format_cannot_do_is_refused(lab: Lab) -> None:
    file = lab.project.write(
        "models/marts/ice_refused.sql", "{{ config(location_root='/here') }} select 1 as id"
    )
    try:
        assert "Remove location_root" in lab.refused("parse")
        file.write_text("select 1 as id")
        lab.project.write(
            "models/marts/_ice.yml",
            """
models:
  - name: ice_refused
    config: {contract: {enforced: true}}
    columns: [{name: id, data_type: int, constraints: [{type: not_null}]}]
""",
        )
        assert "Use data tests instead" in lab.refused("run", "--select", "ice_refused")
        assert not lab.project.spark.catalog.tableExists("iceberg.marts.ice_refused")
    finally:
        file.unlink()
        (lab.project.folder / "models/marts/_ice.yml").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def club(module_project: Callable[[], Project]) -> Project:
    """Two runs, club-1 and club-2. Merges only mark the rows that they change."""
    project = module_project()
    use_iceberg(project, deletion_vectors_from=1)
    project.add("club.people", {"id": "int", "name": "string"}, "id")
    project.tag_subject("club.people", "member")
    project.write("snapshots/club.yml", MEMBERS)
    for number, content in enumerate(("I,1,a\nI,2,b\n", "U,1,aa\nD,2,\nI,3,c\n"), 1):
        project.land(f"club/people/2024010{number}-100000000.csv", content)
        assert run(project, f"club-{number}", "run") == 0
    return project


def run(project: Project, run_id: str, *arguments: str) -> int:
    with project.here(), pytest.MonkeyPatch.context() as patched:
        patched.setenv("TIDEMARK_RUN_ID", run_id)
        return cli.main(arguments)


def people(project: Project) -> dict[str, list[tuple[Any, ...]]]:
    return {
        table: project.rows(f"iceberg.{table}", ["id", "name", "_load_id"], "1, 2, 3")
        for table in ("current.cur_club__people", "history.hist_club__people")
    }


def test_a_table_goes_back_to_a_run_and_the_next_run_catches_up(
    club: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = people(club)
    assert [row[:2] for row in expected["current.cur_club__people"]] == [(1, "aa"), (3, "c")]

    def count(model: str, run_id: str) -> Any:
        table = f"{{{{ tidemark.as_of_run(ref('{model}'), '{run_id}') }}}}"
        done = club.dbt("show", "--inline", f"select count(*) as n from {table}")
        return done.result.results[0].agate_table.rows[0]["n"] if done.success else done.exception

    first = dict.fromkeys(expected, "club-1")
    if spark_line.name() == "3.5":
        assert "do not name their runs" in str(count("hist_club__people", "club-1"))
        capfd.readouterr()
        assert run(club, "club-3", "restore", "cur_club__people", "--to", "club-1") == 1
        assert "do not name their runs. Restore it to a time" in capfd.readouterr().err
        for table in expected:
            ((at,),) = club.rows(f"iceberg.{table}.history", ["min(made_current_at)"])
            first[table] = at.isoformat()
    else:
        assert [count("hist_club__people", f"club-{number}") for number in (1, 2)] == [2, 4]
        assert "The last runs that wrote" in str(count("hist_club__people", "club-9"))
        capfd.readouterr()
        assert run(club, "club-3", "restore", "cur_club__people") == 0
        told = capfd.readouterr().out.splitlines()
        assert [line.split()[-1] for line in told[2:]] == ["club-2", "club-1"]
    for table, point in first.items():
        assert run(club, "club-3", "restore", table.partition(".")[2], "--to", point) == 0
    there = people(club)["current.cur_club__people"]
    assert [row[:2] for row in there] == [(1, "a"), (2, "b")]
    if spark_line.name() != "3.5":
        assert count("cur_club__people", "club-1") == 2
    assert run(club, "club-4", "run") == 0
    assert people(club) == expected


def test_merges_mark_the_rows_that_they_change(club: Project) -> None:
    """In version 3 of the format a file has one vector, however many merges change it."""
    for name in people(club):
        columns = ["file_format", "referenced_data_file"]
        vectors = club.rows(f"iceberg.{name}.delete_files", columns, "1")
        assert vectors and {row[0] for row in vectors} == {"PUFFIN"}
        assert len({row[1] for row in vectors}) == len(vectors)


READ = """
import json, sys
from pyiceberg.table import StaticTable

rows = StaticTable.from_metadata(sys.argv[1]).scan().to_arrow().to_pylist()
print(json.dumps([[str(row[name]) for name in sys.argv[2:]] for row in rows]))
"""


def reader(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where another engine's package and what it needs are installed, beside our packages."""
    packages = tmp_path_factory.getbasetemp() / name
    if not packages.exists():
        lock = Path(__file__).parents[1] / f"{name}.lock"
        options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes")
        where = ("--target", str(packages), "--requirement", str(lock))
        subprocess.run([sys.executable, "-m", "pip", "install", *options, *where], check=True)
    return packages


def read_by(packages: Path, program: str, *arguments: str) -> list[list[str]]:
    """The rows that a program prints as JSON, sorted."""
    told = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return sorted(json.loads(told))


@pytest.mark.parametrize("layer", ["current.cur", "history.hist"])
def test_pyiceberg_reads_the_same_rows(
    club: Project, tmp_path_factory: pytest.TempPathFactory, layer: str
) -> None:
    packages = reader("pyiceberg", tmp_path_factory)
    table = f"{layer}_club__people"
    metadata = (Path(books.place(table)) / "metadata").glob("*.metadata.json")
    newest = max(metadata, key=lambda file: json.loads(file.read_text())["last-updated-ms"])
    columns = [each.name for each in club.spark.table(f"iceberg.{table}").schema][:3]
    expected = club.rows(f"iceberg.{table}", columns)
    assert expected
    found = read_by(packages, READ, str(newest), *columns)
    assert found == sorted([str(value) for value in row] for row in expected)


def test_maintain_compacts_and_expires(club: Project, capfd: pytest.CaptureFixture[str]) -> None:
    table = "iceberg.current.cur_club__people"
    expected = people(club)
    for number in range(10):
        # Each statement writes a file.
        row = club.spark.table(table).where("id = 1").withColumn("id", lit(90 + number))
        row.writeTo(table).append()
    kept = club.rows(table, ["*"], "id")
    folder = Path(books.place("current.cur_club__people"))
    before = len([*folder.glob("data/*.parquet")])
    assert run(club, "club-5", "maintain", "cur_club__people", "--dry-run") == 0
    assert len([*folder.glob("data/*.parquet")]) == before
    arguments = ("--vacuum-after", "1 second", "--force")
    time.sleep(1)
    # By its name: the other tests of this lake see when all tables were maintained.
    assert run(club, "club-5", "maintain", "cur_club__people", *arguments) == 0
    assert f"{table} " in capfd.readouterr().out
    assert club.rows(table, ["*"], "id") == kept
    assert len([*folder.glob("data/*.parquet")]) == 1
    assert club.spark.sql(f"select 1 from {table}.snapshots").count() == 1
    assert run(club, "club-5", "maintain", "cur_club__people", "--dry-run") == 0
    assert "Nothing to do for 1 table." in capfd.readouterr().out
    club.spark.sql(f"delete from {table} where id >= 90")
    assert people(club) == expected


def test_the_report_has_the_table(club: Project) -> None:
    table = "iceberg.current.cur_club__people"
    (count,) = club.rows(table, ["count(*)"])[0]
    with club.here():
        sizes = page.sizes_of(dbt_project.current(), datetime.now(UTC).date())
    (found,) = [each for each in sizes if each.relation == table]
    assert (found.rows, found.by_day[-1], found.layer) == (count, count, "current")
    assert found.files > 0 and found.size > 0 and found.is_kept


def test_a_table_that_the_metastore_lost_is_registered(
    club: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = people(club)
    folder = Path(books.place("current.cur_club__people"))
    aside = folder.rename(folder.with_name("aside"))
    club.spark.sql("drop table iceberg.current.cur_club__people")
    aside.rename(folder)
    assert run(club, "club-6", "register") == 0
    assert "iceberg.current.cur_club__people is registered." in capfd.readouterr().out
    assert people(club) == expected


def test_what_depends_on_a_feed_and_is_no_delta_table_is_known(lab: Lab) -> None:
    with lab.project.here():
        parsed = dbt_project.current()
    below = parsed.below(parsed.sources_of(["ice.orders"]))
    assert "iceberg.history.hist_ice__orders" in {parsed.nodes[name].other for name in below}


def test_an_erasure_leaves_nothing(club: Project, capfd: pytest.CaptureFixture[str]) -> None:
    """Not in earlier snapshots, nor in files of no snapshot."""
    for day, content in ((3, "I,7,Zebulon\nI,8,Zoe\n"), (4, "U,7,Zebulonia\n")):
        club.land(f"club/people/2024010{day}-100000000.csv", content)
        assert run(club, f"club-{day + 4}", "run") == 0
    table, members = "iceberg.current.cur_club__people", "iceberg.snapshots.club_members"
    data = Path(books.place("current.cur_club__people"), "data")
    written = max(data.glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    written.with_name("of-no-snapshot.parquet").write_bytes(written.read_bytes())
    folders = [
        Path(books.place(name)) for name in ("current.cur_club__people", "snapshots.club_members")
    ]
    folders.append(Path(books.place("history.hist_club__people")))
    assert all(values(folder, "Zebulon") for folder in folders)
    expected = [row for row in club.rows(table, ["id", "name"], "id") if row[0] != 7]
    assert run(club, "club-9", "erase", "member", "--key", "7") == 0
    assert members in capfd.readouterr().out
    assert not any(values(folder, "Zebulon") for folder in folders)
    assert club.rows(table, ["id", "name"], "id") == expected
    assert ("Zoe",) in club.rows(members, ["name"], "name")
    assert run(club, "club-10", "run") == 0
    assert "Nothing to build" in capfd.readouterr().out


def test_a_branch_keeps_what_an_erasure_would_delete(club: Project) -> None:
    name = "marts.club_branched"
    club.spark.sql(f"create table iceberg.{name} using iceberg as select 1 as n")
    arguments = f"table => '{name}', branch => 'monthly', to => 'main'"
    club.spark.sql(f"call iceberg.system.fast_forward({arguments})")
    with pytest.raises(TidemarkError, match="the branches or tags monthly keep earlier versions"):
        formats.OTHERS["iceberg"].forget(club.spark, f"iceberg.{name}")


def values(folder: Path, text: str) -> list[Path]:
    """The files below a folder in which a text can be read."""
    return [
        file
        for file in folder.rglob("*")
        if file.is_file() and any(text in found for found in erasures.texts(file))
    ]


def test_a_name_of_two_parts_gets_a_sentence(lab: Lab) -> None:
    with pytest.raises(Exception, match="Exception") as raised:
        lab.project.spark.sql("select * from marts.ice_dim").collect()
    assert "Its name has three parts: iceberg.schema.table." in session.readable(raised.value)


def test_a_spark_without_the_format_is_refused_before_it_writes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = type("Other", (Iceberg,), {"name": "other", "title": "Other"})()
    noted: list[Any] = []
    monkeypatch.setitem(formats.OTHERS, "other", other)
    monkeypatch.setattr(formats, "note", noted.extend)
    adapter: Any = SimpleNamespace(
        config=SimpleNamespace(credentials=SimpleNamespace(method="session")),
        execute=lambda sql, fetch: (None, lab.rows(sql)),
    )
    with pytest.raises(Exception, match="before Tidemark knew that this project has Other tables"):
        relations.require_format(adapter, "other")
    assert noted == [other]
    relations.require_format(adapter, "iceberg")
    relations.require_format(adapter, None)


def test_a_lost_table_stays_where_it_is(lab: Lab) -> None:
    """Spark's start moves folders without a table: those in which a killed build began a table."""
    place = lab.rows("describe extended iceberg.marts.ice_dim")
    (location,) = [row[1] for row in place if row[0] == "Location"]
    assert not session.is_young(Path(location.removeprefix("file:")))


COMPARED = {
    "current.cur_ice__orders": "id, name, amount, small, _op, cast(_changed_at as string)",
    "history.hist_ice__orders": "id, version_number, name, amount, small, is_current, "
    "cast(valid_from as string), cast(valid_to as string)",
    "marts.ice_dim": "*",
    "marts.ice_merged": "*",
    "marts.ice_python": "*",
    "seeds.ice_codes": "*",
    "ice_snaps_a.ice_twin": "id, name, amount, dbt_valid_to is null, dbt_is_deleted",
    "ice_snaps_b.ice_twin": "id, name, amount, dbt_valid_to is null",
}


@pytest.mark.skipif(spark_line.name() == "3.5", reason="PySpark 3.5 has no Spark Connect server")
def test_a_thrift_server_builds_the_same_tables(
    lab: Lab, module_project: Callable[[], Project], tmp_path: Path
) -> None:
    project = declare(module_project())
    land(project, 1)
    with running(tmp_path / "lake") as server:
        # It was started for another project, and the lake has no such table yet.
        done = server.command("dbt", "build", "--target", "thrift", project=project)
        assert done.returncode != 0
        assert "has no catalog iceberg, so nothing was written. Restart it (ti" in done.stdout
        assert server.command("tidemark", "thrift", "stop").returncode == 0
        assert server.start().returncode == 0
        for batch in FILES:
            land(project, batch)
            server.dbt(project, "build", "--threads", "4")
        for table, columns in COMPARED.items():
            query = f"select {columns} from iceberg.{table}"
            found, expected = (sorted(map(str, rows(query))) for rows in (server.rows, lab.rows))
            assert found == expected, table
            assert found, table
        commits = "select count(*) from iceberg.marts.ice_merged.snapshots"
        assert server.rows(commits) == [(3,)]
        table = "iceberg.current.cur_ice__orders"
        options = ("--vacuum-after", "1 second", "--force")
        assert table in server.tidemark(project, "maintain", "cur_ice__orders", *options)
        assert server.rows(f"select count(*) from {table}.snapshots") == [(1,)]


# --- what runs on Delta, on Iceberg -------------------------------------------------------------


@pytest.fixture(scope="module")
def found(
    module_project: Callable[[], Project], request: pytest.FixtureRequest
) -> Iterable[scenarios.Found]:
    def in_catalog(layer: str, table: str) -> str:
        return f"iceberg.{layer}.{scenarios._model(layer, table)}"

    project = module_project()
    use_iceberg(project)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scenarios, "SOURCE", "ice_scenarios")
        patched.setattr(scenarios, "_relation", in_catalog)
        yield scenarios.build(project, scenario.asked(request, "test_scenario"))


@pytest.mark.parametrize("one", scenarios.ALL, ids=lambda one: one.name)
def test_scenario(found: scenarios.Found, one: Scenario) -> None:
    scenarios.check(found, one)


class Table(convergence.Table):
    """A table of random cases, as Iceberg has it."""

    @property
    def current(self) -> str:
        return f"iceberg.{super().current}"

    def history(self, shape: convergence.Shape) -> str:
        return f"iceberg.{super().history(shape)}"


def test_tables_converge(module_project: Callable[[], Project]) -> None:
    """Merges only mark the rows that they change. Other tests here rewrite the files."""
    project = module_project()
    use_iceberg(project, deletion_vectors_from=1)
    found = convergence.drawn(convergence.cases(), convergence.CASES)
    dumps = convergence.drawn(convergence.extracts(), convergence.CASES // 4)
    plain = (convergence.PLAIN, convergence.RENAMED)
    by_seq = Table("ice_conv.by_seq", True, plain)
    partial = Table("ice_conv.partial", True, (convergence.PLAIN, convergence.KNOWN), partial=True)
    typed = Table("ice_conv.typed", True, typed=True)
    dumped = Table("ice_conv.extract", False, (convergence.BY_FILE, convergence.DELETES))
    tables = [by_seq, partial, typed, dumped]
    for table in tables:
        convergence.declare(project, table)
    for batch in range(convergence.BATCHES):
        for table in (by_seq, partial, typed):
            convergence.land_batch(project, table, found, batch)
        convergence.land_extracts(project, dumped, dumps, convergence.EXTRACTS[batch])
        project.build()
        for table in tables:
            table.landed = len(table.events)
            convergence.compare(project, table, f"on Iceberg, after batch {batch + 1}")
    convergence._knowledge_is_kept(project, partial)
    derived = [name for table in tables for name in table.relations[1:]]
    before = {name: written(project, name.removeprefix("iceberg.")) for name in derived}
    project.build()
    assert {name: written(project, name.removeprefix("iceberg.")) for name in derived} == before
    project.build("--full-refresh", "--select", *(name.split(".")[-1] for name in derived))
    for table in tables:
        convergence.compare(project, table, "on Iceberg, built anew")


def test_tables_of_cut_logs_converge(module_project: Callable[[], Project]) -> None:
    project = module_project()
    use_iceberg(project)
    found = convergence.drawn(convergence.cases(), convergence.CASES)
    dumps = convergence.drawn(convergence.extracts(), convergence.CASES // 4)
    shapes = (convergence.PLAIN, convergence.TRACKED_DELETES)
    tables = [
        Table("ice_cut.partial", True, shapes, partial=True, truncates=True),
        Table("ice_cut.extract", False, (convergence.BY_FILE, convergence.DELETES)),
    ]
    convergence.cut_logs_converge(project, tables, found, dumps)


def test_a_log_is_cut_and_a_history_keeps_its_versions(
    module_project: Callable[[], Project], capfd: pytest.CaptureFixture[str]
) -> None:
    project = module_project()
    use_iceberg(project)
    columns = {"id": "int", "name": "string", "seq": "bigint"}
    feed = {"sequence": "seq", "timestamp_column": "ts", "keep_changes": "400 days"}
    project.add("ice_kept.t", columns, "id", **feed)
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    times = ("2020-01-01 00:00:00", "2020-02-01 00:00:00", now)
    changes = "".join(f"U,{at},1,{'abc'[n]},{n}\n" for n, at in enumerate(times))
    project.land("ice_kept/t/20240101-100000000.csv", changes)
    assert run(project, "kept-1", "run") == 0
    history = "iceberg.history.hist_ice_kept__t"
    expected = project.rows(history, ["name", "valid_from", "version_number"], "version_number")
    assert [row[0] for row in expected] == ["a", "b", "c"]
    assert run(project, "kept-2", "maintain", "ice_kept.t", "--dry-run") == 0
    assert "The log of ice_kept.t would be cut" in capfd.readouterr().out
    assert run(project, "kept-2", "maintain", "ice_kept.t") == 0
    assert "Cut the log of ice_kept.t: deleted 1 change" in capfd.readouterr().out
    project.build("--full-refresh", "--select", "hist_ice_kept__t")
    found = project.rows(history, ["name", "valid_from", "version_number"], "version_number")
    assert found == expected
