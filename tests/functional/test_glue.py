"""The target `glue`: dbt-glue in a process of its own, against Glue's API with a real Spark."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from tests import glue_server
from tests.aws_server import AwsServer
from tests.glue_server import GlueServer
from tests.project import REPO, Project
from tidemark import cli, demo, paths, runs, targets
from tidemark.shared import shared
from tidemark.spark import session

pytestmark = [
    pytest.mark.functional,
    pytest.mark.skipif(
        not find_spec("dbt.adapters.glue"), reason="deploy/dbt-glue.lock is not installed"
    ),
]

SCHEMA = "glue"
COLUMNS = {"id": "int", "name": "string", "amount": "decimal(9, 2)"}
SEED = "id,text,big\n1,O'Brien,9007199254740993\n2,,2\n3,a \\ back ${slash} 100%,3\n"
MODELS = {
    "models/marts/glued_odd.sql": "select cast('abc' as int) as n, "
    "cast('2024-01-01' as timestamp) as t, "
    "'a \\\\ b' as b, regexp_replace('a1b22', '\\\\d+', '#') as c, \"it's\" as d",
    "models/marts/glued_people.py": (
        "from tidemark import dedup\n\n\n"
        "def model(dbt, session):\n"
        "    dbt.config(materialized='table')\n"
        "    found = dbt.ref('cur_glued__orders')\n"
        "    return dedup.group_similar(\n"
        "        found.selectExpr('id', 'name', '1 as place'), key='id', text='name',\n"
        "        within=['place'],\n"
        "    )\n"
    ),
    "models/marts/spent.sql": "select sum(amount) as amount from {{ ref('cur_glued__orders') }}",
    "snapshots/glued_snap.sql": "{% snapshot glued_snap %}\n"
    "{{ config(unique_key='id', strategy='check', check_cols='all', hard_deletes='new_record') }}\n"
    "select id, name from {{ ref('cur_glued__orders') }}\n{% endsnapshot %}\n",
    "models/marts/_marts.yml": "models:\n  - name: glued_odd\n    description: It's odd\n"
    "    columns:\n      - name: n\n        description: It's no number, nor '''\n"
    "        data_tests: [{unique: {config: {where: n is not null}}}]\n"
    "      - name: b\n        data_tests: [accepted_values: {arguments: {values: ['a \\\\ b']}}]\n"
    "    config: {persist_docs: {relation: true, columns: true}}\n"
    "unit_tests:\n  - name: amounts_are_added_up\n    model: spent\n    given:\n"
    "      - {input: ref('cur_glued__orders'), rows: [{amount: 1.5}, {amount: 2}]}\n"
    "    expect: {rows: [{amount: 3.5}]}\n",
}
QUERIES = {
    "staging.stg_glued__orders": "*",
    "current.cur_glued__orders": "*",
    "history.hist_glued__orders": "*",
    "seeds.glued_words": "*",
    "marts.glued_odd": "*",
    "marts.glued_people": "*",
    "marts.spent": "*",
    "snapshots.glued_snap": "id, name, dbt_valid_to is null, dbt_is_deleted",
}


@pytest.fixture
def glue(aws: AwsServer, spark: SparkSession) -> Iterator[GlueServer]:
    with glue_server.running(spark) as server:
        yield server
        for row in spark.sql(f"show databases like '{SCHEMA}_*'").collect():
            spark.sql(f"drop database `{row[0]}` cascade")


def dbt(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run dbt on the target `glue`, in a process that has no Spark."""
    mine = {
        "DBT_PROFILES_DIR": str(REPO / "profiles"),
        "DBT_TARGET_PATH": "target/glue",
        "TIDEMARK_GLUE_SCHEMA": SCHEMA,
        "TIDEMARK_GLUE_ROLE": "arn:aws:iam::123456789012:role/tidemark",
        "TIDEMARK_WAREHOUSE": Path(paths.warehouse()).as_uri(),
    }
    return subprocess.run(
        [str(Path(sys.executable).parent / "dbt"), *arguments, "--target", "glue"],
        cwd=folder,
        env={**os.environ, **mine},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=900,
    )


def build(folder: Path, *arguments: str) -> str:
    done = dbt(folder, "build", *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout


def rows(spark: SparkSession, relation: str, columns: str = "*") -> list[str]:
    return sorted(spark.sql(f"select {columns} from {relation}").toJSON().collect())


@pytest.fixture
def shop(project: Project) -> Project:
    project.add("glued.orders", COLUMNS, "id", loaded_at="2024-01-01")
    for path, text in {**MODELS, "seeds/glued_words.csv": SEED}.items():
        project.write(path, text)
    project.land("glued/orders/LOAD00000001.csv", "1,one,1.00\n2,two,2.00\n3,three,3.00\n")
    project.build()
    return project


@pytest.mark.slow
def test_the_same_tables_come_of_the_same_log(
    shop: Project, glue: GlueServer, aws: AwsServer
) -> None:
    spark = shop.spark
    build(shop.folder)
    shop.land(
        "glued/orders/20240102-100000000.csv",
        "U,1,uno,1.00\nU,1,eins,1.50\nD,2,,\nI,4,one.,4.00\nU,3,three,a lot\n",
    )
    # A wider type widens the column of the table.
    sources = shop.folder / "models/staging/glued/_glued__sources.yml"
    narrow = sources.read_text()
    sources.write_text(narrow.replace("decimal(9, 2)", "decimal(12, 2)"))
    assert sources.read_text() != narrow
    shop.build()
    told = build(shop.folder)
    # Unit test, Python model and snapshot are among them.
    assert "PASS=13 WARN=0 ERROR=0 SKIP=0" in told
    assert "error" not in told.lower().replace("error=0", "")
    for relation, columns in QUERIES.items():
        found = rows(spark, f"{SCHEMA}_{relation}", columns)
        assert found == rows(spark, relation, columns), relation
        assert found, relation
        types = spark.table(f"{SCHEMA}_{relation}").dtypes
        assert types == spark.table(relation).dtypes, relation
    table = f"{SCHEMA}_history.hist_glued__orders"
    done = [row.operation for row in spark.sql(f"describe history {table}").collect()]
    assert (done[0], done[-1]) == ("MERGE", "CREATE OR REPLACE TABLE AS SELECT")
    # All threads share one session.
    ((name, arguments),) = glue.arguments.items()
    assert name == "tidemark"
    assert set(arguments) == {"--enable-glue-datacatalog", "--datalake-formats", "--conf"}
    comments = {
        row.col_name: row.comment for row in spark.sql("describe glue_marts.glued_odd").collect()
    }
    assert comments["n"] == "It's no number, nor '''"

    docs = dbt(shop.folder, "docs", "generate", "--no-compile")
    assert docs.returncode == 0, docs.stdout
    catalog = json.loads((shop.folder / "target/glue/catalog.json").read_text())
    assert len(catalog["nodes"]) == len(QUERIES)
    types = catalog["nodes"]["model.showcase.cur_glued__orders"]["columns"]
    assert types["amount"]["type"] == "decimal(12,2)"

    # Where AWS does not answer, dbt-glue itself would find no table, and make it anew.
    aws.answers["GetTable"] = ["AccessDeniedException"] * 20
    refused = dbt(shop.folder, "run", "--select", "hist_glued__orders")
    told = " ".join(refused.stdout.split())
    assert "Data Catalog could not look up log_glued.orders, so nothing was" in told
    assert "the role lacks permission: grant it the permissions in docs/targets/aws.md" in told
    assert refused.returncode == 1
    assert spark.sql(f"describe history {table}").count() == len(done)


def test_a_session_has_the_settings_that_tables_depend_on() -> None:
    profiles = yaml.safe_load((REPO / "profiles" / "profiles.yml").read_text())
    conf = profiles["tidemark"]["outputs"]["glue"]["conf"].split(" --conf ")
    assert {f"{name}={value}" for name, value in session.ESSENTIAL.items()} < set(conf)


@pytest.mark.parametrize("command", [["run"], ["land"], ["sql", "select 1"], ["docs"]])
def test_what_only_a_spark_of_its_own_can_do_is_refused(
    command: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The command sets the one, and dbt has set the other in this process.
    monkeypatch.setenv(targets.TARGET_VARIABLE, "")
    monkeypatch.setattr(shared, "method", "")
    monkeypatch.setenv("DBT_PROJECT_DIR", str(REPO))
    assert cli.main([*command, "--target", "glue"]) == 1
    assert capfd.readouterr().err == (
        "tidemark: The target glue only builds: run `dbt build --target glue`. Landing is done by "
        "the Glue job, python/tidemark_job.py; see docs/targets/aws.md.\n"
    )


@pytest.mark.slow
def test_the_demo_comes_to_the_same_tables(
    glue: GlueServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_LANDING", str(tmp_path / "landing"))
    monkeypatch.setenv("DBT_PROJECT_DIR", str(REPO))
    (tmp_path / "landing").mkdir()
    for day in (1, 2):
        for domain in demo.USUAL:
            demo.arrive(REPO / "examples" / domain / f"day{day}", tmp_path / "landing")
        runs.run()
        build(REPO, "--select", *(f"@source:{domain}" for domain in demo.USUAL))
    compared = []
    for layer in ("staging", "seeds", "current", "history", "marts"):
        for row in spark.sql(f"show tables in {SCHEMA}_{layer}").collect():
            relation = f"{layer}.{row.tableName}"
            names = spark.table(relation).columns
            # Another test may have built the table in more steps.
            columns = ", ".join(name for name in names if name not in ("_load_id", "_order"))
            found = rows(spark, f"{SCHEMA}_{relation}", columns)
            assert found == rows(spark, relation, columns), relation
            compared.append(relation)
    assert len(compared) == 13, compared
    for table in (
        "`glue_current`.cur_insurance__policies",
        "`glue_history`.hist_inventory__products",
    ):
        done = [row.operation for row in spark.sql(f"describe history {table}").collect()]
        assert done == ["MERGE", "CREATE OR REPLACE TABLE AS SELECT"]
    moved = spark.sql(
        "select product_id, group_key, valid_to is null as is_open "
        "from glue_snapshots.snap_inventory__product_groups "
        "where product_id in (103, 105, 108) order by product_id"
    ).collect()
    assert [tuple(row) for row in moved] == [(103, 103, False), (105, 101, True), (108, 108, True)]
