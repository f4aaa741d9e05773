"""Tables in Hudi's format, on Spark 3.5: the same rows as in Delta tables, and the traps.

One project is built three times. Its tables are Hudi's; `..._delta` are the same models as Delta
tables. Random cases run on Hudi as they do on Delta.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import scenario
from tests.functional import test_convergence as convergence
from tests.functional import test_scenarios as scenarios
from tests.functional.test_table_formats import FILES, Lab, read_by, reader, run
from tests.project import Project
from tests.scenario import Scenario
from tidemark import formats
from tidemark.dbt_plugin import project as dbt_project
from tidemark.errors import ConfigError, TidemarkError
from tidemark.formats.hudi import _completed
from tidemark.ingest import books
from tidemark.spark import session, spark_line

pytestmark = [
    pytest.mark.functional,
    pytest.mark.slow,
    pytest.mark.skipif(spark_line.name() != "3.5", reason="Hudi has no jar for Spark 4.1"),
]

HUDI = formats.OTHERS["hudi"]
COLUMNS = {"id": "int", "name": "string", "amount": "decimal(9, 2)", "small": "smallint"}
PAIRS = {"region": "string", "no": "bigint", "n": "int", "note": "string"}
PAIR_FILES = {
    1: "I,eu,1,1,a\nI,eu,2,2,b\nI,,2,3,c\nI,us,2,4,\n",
    2: "U,eu,1,5,\nD,us,2,,\nU,,2,6,d\n",
    3: "I,us,2,7,back\nU,eu,2,8,b\n",
}
MODELS = {
    "marts/hud_dim.sql": """
{{ config(unique_key='id') }}
select id, name, amount from {{ ref('cur_hud__orders') }}
""",
    "marts/hud_view.sql": """
{{ config(materialized='view') }}
select dim.* from {{ ref('hud_dim') }} as dim
""",
    "marts/hud_merged.sql": """
{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
select id, name from {{ ref('cur_hud__orders') }}
""",
}
DESCRIBED = """
models:
  - name: hud_merged
    description: Names
    config: {persist_docs: {relation: true}}
"""
# Compacted with the second of its changes; by default with the fifth.
MERGE_ON_READ = "tblproperties={'type': 'mor', 'hoodie.compact.inline.max.delta.commits': '2'}"
READ = """
import json, sys
import pyarrow as pa
from hudi import HudiTableBuilder

batches = HudiTableBuilder.from_base_uri(sys.argv[1]).build().read()
rows = pa.Table.from_batches(batches).to_pylist()
print(json.dumps([[str(row[name]) for name in sys.argv[2:]] for row in rows]))
"""
# Tables of scenarios. All take half an hour; the first one alone is that of 74 scenarios. Hudi
# refuses the tables of `column_widens` and `typed_composite_key`, which five scenarios have.
CHOSEN = (
    *("shared", "late_event_before_a_partial_update", "column_appears", "composite_sequence"),
    *("columns_that_are_not_tracked", "deletes_are_shown", "extract_lacks_a_row"),
)
FEEDS = ("orders", "pairs")
DERIVED = [
    f"{layer}.{short}_hud__{feed}"
    for feed in FEEDS
    for layer, short in (("current", "cur"), ("history", "hist"))
]
TABLES = [*DERIVED, "marts.hud_dim", "marts.hud_merged"]


def use_hudi(project: Project) -> None:
    """Every model that is a table is Hudi's, by the setting that a user writes."""
    file = project.folder / "dbt_project.yml"
    settings = yaml.safe_load(file.read_text())
    settings["models"]["showcase"]["+file_format"] = "hudi"
    file.write_text(yaml.safe_dump(settings, sort_keys=False))


def written(table: str) -> int:
    """How often a Hudi table has been written since it was created."""
    return len(_completed(Path(books.place(table))))


def declare(project: Project) -> Project:
    use_hudi(project)
    project.add("hud.orders", COLUMNS, "id", loaded_at="2024-01-01")
    project.add("hud.pairs", PAIRS, ["region", "no"])
    for table, key in (("orders", "['id']"), ("pairs", "['region', 'no']")):
        for layer, name, config in (
            ("current", "cur", f"unique_key={key}, "),
            ("history", "hist", ""),
        ):
            own = project.folder / f"models/{layer}/hud/{name}_hud__{table}.sql"
            lines = own.read_text().splitlines()
            text = "\n".join(line for line in lines if "config(" not in line)
            for suffix, more in (("delta", "file_format='delta'"), ("mor", MERGE_ON_READ)):
                project.write(
                    f"models/{layer}/hud/{name}_hud__{table}_{suffix}.sql",
                    f"{{{{ config({config}{more}) }}}}\n{text}",
                )
    for path, text in MODELS.items():
        project.write(f"models/{path}", text)
    project.write("models/marts/hud.yml", DESCRIBED)
    return project


@pytest.fixture(scope="module")
def lab(module_project: Callable[[], Project]) -> Lab:
    lab = Lab(declare(module_project()))
    for batch, files in FILES.items():
        for name, text in files.items():
            lab.project.land(f"hud/orders/{name}", text)
        lab.project.land(f"hud/pairs/2024010{batch}-120000000.csv", PAIR_FILES[batch])
        lab.project.build("--threads", "2")
        lab.commits.append({table: written(table) for table in TABLES})
    return lab


def sorted_rows(lab: Lab, table: str) -> list[str]:
    return sorted(map(str, lab.rows(f"select * from {table}")))


def test_the_tables_are_those_of_delta_row_for_row(lab: Lab) -> None:
    for table in DERIVED:
        own = sorted_rows(lab, table)
        # A smallint is an int in Hudi.
        assert own == sorted_rows(lab, f"{table}_delta"), table
        assert own == sorted_rows(lab, f"{table}_mor"), table
        assert len(own) >= 3
        assert HUDI.is_in(books.place(table))
        assert not HUDI.is_in(books.place(f"{table}_delta"))
    assert [commits["current.cur_hud__orders"] for commits in lab.commits] == [1, 2, 3]


def test_merge_on_read_writes_what_has_changed_and_compacts(lab: Lab) -> None:
    # A batch with new keys rewrites small files all the same; the second one has none.
    folder = Path(books.place("current.cur_hud__pairs_mor"))
    assert [*folder.glob(".*.log.*")]
    assert [*(folder / ".hoodie" / "timeline").glob("*.commit")]
    assert not [*Path(books.place("current.cur_hud__pairs")).glob(".*.log.*")]


@pytest.mark.parametrize("suffix", ["", "_mor"])
@pytest.mark.parametrize("table", DERIVED)
def test_hudi_rs_reads_the_same_rows(
    lab: Lab, tmp_path_factory: pytest.TempPathFactory, table: str, suffix: str
) -> None:
    packages = reader("hudi", tmp_path_factory)
    columns = {"orders": ["id", "name"], "pairs": ["region", "no", "n"]}[table.rpartition("_")[2]]
    if table.startswith("history"):
        columns = [*columns, "version_number", "is_current"]
    expected = lab.rows(f"select {', '.join(columns)} from {table}_delta")
    assert expected
    found = read_by(packages, READ, books.place(f"{table}{suffix}"), *columns)
    assert found == sorted([str(value) for value in row] for row in expected)


def test_marts_are_tables_or_merged_into(lab: Lab) -> None:
    assert lab.project.rows("marts.hud_merged", ["id", "name"], "id") == [
        (1, "eins"),
        (2, "zwei"),
        (3, "drei"),
        (4, "four"),
        (5, "five"),
    ]
    assert [commits["marts.hud_merged"] for commits in lab.commits] == [1, 2, 3]
    rows = lab.project.rows("marts.hud_dim", ["id", "name"], "id")
    assert rows == lab.project.rows("current.cur_hud__orders", ["id", "name"], "id")
    assert sorted_rows(lab, "marts.hud_view") == sorted_rows(lab, "marts.hud_dim")
    # It is dropped and created.
    assert [commits["marts.hud_dim"] for commits in lab.commits] == [1, 1, 1]


def test_a_table_keeps_its_description(lab: Lab) -> None:
    """Hudi adds a table to the metastore by itself, without it, unless that is switched off."""
    described = lab.rows("describe extended marts.hud_merged")
    assert ("Comment", "Names", "") in described or ("Comment", "Names", None) in described


def test_select_has_only_the_models_columns(lab: Lab) -> None:
    assert lab.project.spark.table("marts.hud_dim").columns == ["id", "name", "amount"]


def test_the_format_of_a_table_is_known_by_its_folder(lab: Lab) -> None:
    with lab.project.here():
        assert formats.of("current.cur_hud__orders") is HUDI
        assert formats.of("current.cur_hud__orders_delta") is formats.DELTA
        parsed = dbt_project.current()
    below = parsed.below(parsed.sources_of(["hud.orders"]))
    assert "history.hist_hud__orders" in {parsed.nodes[name].other for name in below}
    assert "history.hist_hud__orders_delta" in {parsed.nodes[name].relation for name in below}


def test_nothing_new_commits_nothing(lab: Lab) -> None:
    before = {table: written(table) for table in DERIVED}
    lab.project.build("--select", *(table.split(".")[1] for table in DERIVED))
    assert {table: written(table) for table in DERIVED} == before


def test_what_one_session_writes_the_others_see(lab: Lab) -> None:
    """Spark keeps what it knows of a table for each session, for ever."""
    one, other = session.fresh(), session.fresh()
    one.sql(
        "create table marts.hud_seen using hudi tblproperties ('primaryKey' = 'n', "
        "'hoodie.populate.meta.fields' = 'false') as select 1 as n"
    )
    assert other.table("marts.hud_seen").count() == 1
    one.sql(
        "merge into marts.hud_seen as t using (select 2 as n) as s on s.n = t.n "
        "when not matched then insert (n) values (s.n)"
    )
    assert other.table("marts.hud_seen").count() == 2
    one.sql("drop table marts.hud_seen")


def test_a_time_can_be_read_and_a_run_cannot(lab: Lab) -> None:
    call = "call show_commits(table => 'current.cur_hud__orders')"
    assert lab.project.spark.sql(call).count() == 3
    first = _completed(Path(books.place("current.cur_hud__orders")))[0]
    at = f"select count(*) from current.cur_hud__orders timestamp as of '{first}'"
    assert lab.rows(at) == [(3,)]
    table = "{{ tidemark.as_of_run(ref('cur_hud__orders'), 'run-1') }}"
    done = lab.project.dbt("show", "--inline", f"select * from {table}")
    assert "a Hudi table, do not name their runs. Use a time instead" in str(done.exception)
    table = "{{ tidemark.as_of_run(ref('cur_hud__orders_delta'), 'run-1') }}"
    done = lab.project.dbt("show", "--inline", f"select * from {table}")
    assert "no run with the id 'run-1'" in str(done.exception)


def test_restore_refuses_and_maintain_says_that_it_leaves_them_out(
    lab: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(lab.project, "hud-1", "restore", "cur_hud__orders") == 1
    assert "cannot be restored. Rebuild it from its log" in capfd.readouterr().err
    assert run(lab.project, "hud-1", "maintain", "--dry-run", "cur_hud__orders") == 0
    said = capfd.readouterr().out
    assert "Left out: current.cur_hud__orders. Hudi compacts and cleans" in said


def test_a_full_refresh_builds_the_table_anew(lab: Lab) -> None:
    before = sorted_rows(lab, "history.hist_hud__orders")
    lab.project.build("--full-refresh", "--select", "hist_hud__orders")
    assert sorted_rows(lab, "history.hist_hud__orders") == before
    assert written("history.hist_hud__orders") == 1
    with pytest.raises(TidemarkError, match="Hudi has kept earlier versions"):
        HUDI.forget(lab.project.spark, "current.cur_hud__orders")


def refused(lab: Lab, text: str, *arguments: str, name: str = "hud_refused") -> str:
    file = lab.project.write(f"models/marts/{name}.sql", text)
    try:
        return lab.refused(*(arguments or ("parse",)))
    finally:
        file.unlink()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("alias='hud_refused'", "Set unique_key"),
        ("unique_key='id', location_root='/here'", "Remove location_root"),
        ("unique_key='id', materialized='incremental'", "Set incremental_strategy: merge"),
        (
            "unique_key='id', materialized='incremental', incremental_strategy='append'",
            "Set incremental_strategy: merge",
        ),
        ("unique_key='id', full_refresh=false", "Remove full_refresh: false"),
    ],
)
def test_what_the_format_cannot_do_is_refused(lab: Lab, config: str, said: str) -> None:
    text = f"{{{{ config(materialized='table') }}}} {{{{ config({config}) }}}} select 1 as id"
    assert said in refused(lab, text)


def test_a_key_that_hudi_would_confuse_is_refused(lab: Lab) -> None:
    text = "{{ config(unique_key='id') }} select cast(1.5 as decimal(9, 2)) as id"
    said = refused(lab, text, "run", "--select", "hud_refused")
    assert "a Hudi table can get a key twice whose column id is a decimal(9,2)" in said
    assert not lab.project.spark.catalog.tableExists("marts.hud_refused")
    text = """
{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['a', 'b']) }}
select 'x' as a, 'y' as b {% if is_incremental() %} union all select 'x,b:y', 'z' {% endif %}
"""
    lab.project.write("models/marts/hud_pairs.sql", text)
    lab.project.build("--select", "hud_pairs")
    said = refused(lab, text, "run", "--select", "hud_pairs", name="hud_pairs")
    assert "Hudi would confuse a key of this merge with another one" in said
    assert lab.rows("select * from marts.hud_pairs") == [("x", "y")]


def test_a_merged_table_keeps_its_format(lab: Lab) -> None:
    for name, was, now in (
        ("history/hud/hist_hud__orders_delta", "delta", "hudi"),
        ("history/hud/hist_hud__pairs", "hudi", "delta"),
    ):
        file = lab.project.folder / f"models/{name}.sql"
        text = file.read_text()
        config = f"{{{{ config(file_format='{now}') }}}}\n"
        file.write_text(config + text.replace(f"{{{{ config(file_format='{was}') }}}}\n", ""))
        rows = sorted_rows(lab, f"history.{file.stem}")
        try:
            said = lab.refused("run", "--select", file.stem)
            assert f"file_format: {was}, but its model now has file_format: {now}" in said
        finally:
            file.write_text(text)
        assert sorted_rows(lab, f"history.{file.stem}") == rows


def declaration(lab: Lab, feed: str) -> tuple[Path, Any, Any]:
    """The file with the feeds, its content, and of it what declares this feed."""
    yml = next((lab.project.folder / "models").rglob("_hud__sources.yml"))
    told = yaml.safe_load(yml.read_text())
    (table,) = [each for each in told["sources"][0]["tables"] if each["name"] == feed]
    return yml, told, table


def test_drift_is_refused_before_writing(lab: Lab) -> None:
    yml, told, table = declaration(lab, "pairs")
    text = yml.read_text()
    table["config"]["meta"]["feed"]["exclude_columns"] = "note"
    yml.write_text(yaml.safe_dump(told, sort_keys=False))
    models = ("cur_hud__pairs", "hist_hud__pairs")
    tables = [f"current.{models[0]}", f"history.{models[1]}"]
    before = [(written(each), sorted_rows(lab, each)) for each in tables]
    said = lab.refused("build", "--select", *models)
    yml.write_text(text)
    for model in models:
        assert f"dbt build --full-refresh --select {model}" in said
    assert said.count("columns left out was not set and is now note") == len(models)
    assert [(written(each), sorted_rows(lab, each)) for each in tables] == before


def test_a_new_column_is_added_and_a_wider_type_needs_a_rebuild(lab: Lab) -> None:
    yml, told, table = declaration(lab, "orders")
    table["columns"].append({"name": "more", "data_type": "string"})
    yml.write_text(yaml.safe_dump(told, sort_keys=False))
    lab.project.land("hud/orders/20240104-100000000.csv", "U,4,vier,4.00,4,new\n")
    lab.project.build()
    for name in ("current.cur_hud__orders", "history.hist_hud__orders"):
        assert sorted_rows(lab, name) == sorted_rows(lab, f"{name}_delta")
        assert ("new",) in lab.rows(f"select more from {name}")
    (amount,) = [each for each in table["columns"] if each["name"] == "amount"]
    amount["data_type"] = "decimal(12, 2)"
    yml.write_text(yaml.safe_dump(told, sort_keys=False))
    lab.project.land("hud/orders/20240105-100000000.csv", "U,4,vier,1234567890.50,4,new\n")
    names = ("cur_hud__orders", "hist_hud__orders")
    said = lab.refused("build")
    assert "a hudi table cannot change the type of a column (amount" in said
    assert "dbt build --full-refresh --select cur_hud__orders" in said
    lab.project.build("--full-refresh", "--select", *names)
    for name in ("current.cur_hud__orders", "history.hist_hud__orders"):
        columns = ", ".join(lab.project.spark.table(f"{name}_delta").columns)
        own, delta = (
            sorted(map(str, lab.rows(f"select {columns} from {each}")))
            for each in (name, f"{name}_delta")
        )
        assert own == delta
        assert "1234567890.50" in str(own)


def test_an_erasure_leaves_nothing(
    module_project: Callable[[], Project], capfd: pytest.CaptureFixture[str]
) -> None:
    project = module_project()
    use_hudi(project)
    project.add("club.people", {"id": "int", "name": "string"}, "id")
    project.tag_subject("club.people", "member")
    for number, content in enumerate(("I,1,a\nI,7,Zebulon\n", "U,1,aa\nU,7,Zebulonia\n"), 1):
        project.land(f"club/people/2024010{number}-100000000.csv", content)
        assert run(project, f"club-{number}", "run") == 0
    folders = [
        Path(books.place(name))
        for name in ("current.cur_club__people", "history.hist_club__people")
    ]

    def has_name(folder: Path) -> bool:
        return any(b"Zebulon" in file.read_bytes() for file in folder.rglob("*.parquet"))

    assert all(has_name(folder) for folder in folders)
    assert run(project, "club-3", "erase", "member", "--key", "7") == 0
    assert "current.cur_club__people" in capfd.readouterr().out
    assert not any(has_name(folder) for folder in folders)
    assert project.rows("current.cur_club__people", ["id", "name"], "id") == [(1, "aa")]


def test_a_table_that_the_metastore_lost_is_registered(lab: Lab) -> None:
    expected = sorted_rows(lab, "marts.hud_merged")
    folder = Path(books.place("marts.hud_merged"))
    aside = folder.rename(folder.with_name("aside"))
    lab.project.spark.sql("drop table marts.hud_merged")
    aside.rename(folder)
    assert not session.is_young(folder)
    assert dict(HUDI.lost("marts", folder.parent)).keys() >= {"marts.hud_merged"}
    assert run(lab.project, "hud-2", "register") == 0
    assert sorted_rows(lab, "marts.hud_merged") == expected


def test_tables_converge(module_project: Callable[[], Project]) -> None:
    project = module_project()
    use_hudi(project)
    found = convergence.drawn(convergence.cases(), convergence.CASES)
    tables = [
        convergence.Table("hud_conv.by_seq", True, (convergence.PLAIN,)),
        convergence.Table("hud_conv.partial", True, (convergence.PLAIN,), partial=True),
    ]
    for table in tables:
        convergence.declare(project, table)
    for batch in range(convergence.BATCHES):
        for table in tables:
            convergence.land_batch(project, table, found, batch)
        project.build()
        for table in tables:
            table.landed = len(table.events)
            convergence.compare(project, table, f"on Hudi, after batch {batch + 1}")
    derived = [name for table in tables for name in table.relations[1:]]
    before = {name: written(name) for name in derived}
    project.build()
    assert {name: written(name) for name in derived} == before


@pytest.fixture(scope="module")
def found(
    module_project: Callable[[], Project], request: pytest.FixtureRequest
) -> Iterable[scenarios.Found]:
    project = module_project()
    use_hudi(project)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scenarios, "SOURCE", "hud_scenarios")
        yield scenarios.build(project, scenario.asked(request, "test_scenario"))


@pytest.mark.parametrize(
    "one", [one for table in CHOSEN for one in scenarios.TABLES[table]], ids=lambda one: one.name
)
def test_scenario(found: scenarios.Found, one: Scenario) -> None:
    scenarios.check(found, one)


def test_its_tables_are_written_by_dbt_alone() -> None:
    with pytest.raises(TidemarkError, match="Only models can be Hudi tables"):
        HUDI.overwrite(None, "a.b")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cleans its tables itself"):
        HUDI.compact(None, "a.b")  # type: ignore[arg-type]


def test_a_log_is_cut_only_if_its_history_can_keep_versions(
    module_project: Callable[[], Project], capfd: pytest.CaptureFixture[str]
) -> None:
    project = module_project()
    use_hudi(project)
    feed = {"sequence": "seq", "timestamp_column": "ts", "keep_changes": "400 days"}
    project.add("hud_kept.t", {"id": "int", "name": "string", "seq": "bigint"}, "id", **feed)
    changes = "U,2020-01-01 00:00:00,1,a,1\nU,2020-02-01 00:00:00,1,b,2\n"
    project.land("hud_kept/t/20240101-100000000.csv", changes)
    assert run(project, "kept-1", "run") == 0
    for options in (["--dry-run"], []):
        assert run(project, "kept-2", "maintain", "hud_kept.t", *options) == 0
        assert "is a Hudi table, which cannot keep versions" in capfd.readouterr().out

    # A Delta table cannot become one of Hudi once its log was cut.
    model = project.folder / "models/history/hud_kept/hist_hud_kept__t.sql"
    own = model.read_text()
    model.write_text("{{ config(file_format='delta') }}\n" + own)
    current = project.folder / "models/current/hud_kept/cur_hud_kept__t.sql"
    current.write_text(current.read_text().replace("config(", "config(file_format='delta', "))
    project.build("--full-refresh", "--select", "cur_hud_kept__t", "hist_hud_kept__t")
    assert run(project, "kept-3", "run") == 0
    assert run(project, "kept-3", "maintain", "hud_kept.t") == 0
    assert "Cut the log of hud_kept.t: deleted 1 change" in capfd.readouterr().out
    model.write_text(own)
    versions = project.rows("history.hist_hud_kept__t", ["name"], "version_number")
    assert versions == [("a",), ("b",)]
    refused = project.dbt("build", "--full-refresh", "--select", "hist_hud_kept__t")
    messages = " ".join(each.message or "" for each in refused.result.results)
    assert "dbt would drop it first" in messages
    assert project.rows("history.hist_hud_kept__t", ["name"], "version_number") == versions
