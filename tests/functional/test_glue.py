"""The target `glue`: dbt-glue in a process of its own, against Glue's API with a real Spark."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests import glue_server
from tests.aws_server import AwsServer
from tests.glue_server import GlueServer
from tests.project import REPO, Project
from tidemark import demo, paths

pytestmark = [
    pytest.mark.functional,
    pytest.mark.skipif(
        not find_spec("dbt.adapters.glue"), reason="aws/dbt-glue.lock is not installed"
    ),
]

SCHEMA = "glue"
# What differs between two builds of the same log: a snapshot's times, and what holds them.
OF_BUILDS = ("valid_from", "valid_to", "_taken_at", "version_key")
OF_BUILDS = (*OF_BUILDS, "dbt_valid_from", "dbt_valid_to", "dbt_updated_at", "dbt_scd_id")

COLUMNS = {"id": "int", "name": "string", "amount": "decimal(9, 2)"}
SEED = "id,text,big\n1,O'Brien,9007199254740993\n2,,2\n3,a \\ back ${slash} 100%,3\n"
MODELS = {
    "models/marts/odd.sql": "select cast('abc' as int) as n, cast('2024-01-01' as timestamp) as t, "
    "'a \\\\ b' as b, regexp_replace('a1b22', '\\\\d+', '#') as c, \"it's\" as d",
    "models/marts/people.py": (
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
    "snapshots/snap.sql": "{% snapshot snap %}\n"
    "{{ config(unique_key='id', strategy='check', check_cols='all', hard_deletes='new_record') }}\n"
    "select id, name from {{ ref('cur_glued__orders') }}\n{% endsnapshot %}\n",
    "models/marts/_marts.yml": "models:\n  - name: odd\n    description: It's odd\n"
    "    columns:\n      - name: n\n        description: It's no number, nor a \\ or '''\n"
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
    "seeds.words": "*",
    "marts.odd": "*",
    "marts.people": "*",
    "marts.spent": "*",
    "snap": "id, name, dbt_valid_to is null, dbt_is_deleted",
}


@pytest.fixture
def glue(aws: AwsServer, spark: SparkSession) -> Iterator[GlueServer]:
    with glue_server.running(spark) as server:
        yield server
        for row in spark.sql(f"show databases like '{SCHEMA}*'").collect():
            spark.sql(f"drop database `{row[0]}` cascade")


def dbt(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run dbt on the target `glue`, in a process that has no Spark."""
    mine = {
        "DBT_PROFILES_DIR": str(REPO / "profiles"),
        "TIDEMARK_GLUE_SCHEMA": SCHEMA,
        "TIDEMARK_GLUE_ROLE": "arn:aws:iam::123456789012:role/tidemark",
        "TIDEMARK_WAREHOUSE": Path(paths.warehouse()).as_uri(),
    }
    return subprocess.run(
        [sys.executable, "-m", "dbt.cli.main", *arguments, "--target", "glue"],
        cwd=folder,
        env={**os.environ, **mine, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=900,
    )


def build(folder: Path, *arguments: str, **variables: str) -> str:
    done = dbt(folder, "build", *arguments, **variables)
    assert done.returncode == 0, done.stdout
    return done.stdout


def rows(spark: SparkSession, relation: str, columns: str = "*") -> list[str]:
    return sorted(spark.sql(f"select {columns} from {relation}").toJSON().collect())


def on_glue(relation: str) -> str:
    schema, _, table = relation.rpartition(".")
    return f"{SCHEMA}_{schema}.{table}" if schema else f"{SCHEMA}.{table}"


@pytest.fixture
def shop(project: Project) -> Project:
    project.add("glued.orders", COLUMNS, "id", loaded_at="2024-01-01")
    for path, text in {**MODELS, "seeds/words.csv": SEED}.items():
        project.write(path, text)
    return project


def test_the_same_tables_come_of_the_same_log(shop: Project, glue: GlueServer) -> None:
    shop.land("glued/orders/LOAD00000001.csv", "1,one,1.00\n2,two,2.00\n3,three,3.00\n")
    shop.build()
    print(build(shop.folder))
    shop.land(
        "glued/orders/20240102-100000000.csv",
        "U,1,uno,1.00\nU,1,eins,1.50\nD,2,,\nI,4,one.,4.00\nU,3,three,a lot\n",
    )
    shop.build()
    print(build(shop.folder))
    for relation, columns in QUERIES.items():
        found = rows(shop.spark, on_glue(relation), columns)
        assert found == rows(shop.spark, relation if "." in relation else f"default.{relation}", columns), relation
        assert found, relation
