"""The Data Catalog has what the lake has: real tables on a real S3 server, moto's Glue."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
import yaml
from pyspark.sql import SparkSession

from tests import lake_formation, s3_server
from tests.aws_server import AwsServer
from tests.project import Project
from tidemark import cli, paths

pytestmark = [pytest.mark.functional, pytest.mark.slow]

LAYERS = ("staging", "current", "marts")
ANALYSTS = "arn:aws:iam::123456789012:role/analysts"
MART = "select id, cast(price as decimal(9, 2)) as price{more} from {{ ref('cur_cat__sales') }}"
DESCRIBED = """
models:
  - name: dim_sales
    description: One row per sale,
      as it is now.
    config: {meta: META}
    columns:
      - name: price
        description: What was paid.
"""


@pytest.fixture(scope="module")
def shop(
    module_project: Callable[[], Project], spark: SparkSession, port_of_s3_tables: int
) -> Iterator[Project]:
    """A project whose schemas are on S3: the warehouse of the tests' lake is a local folder."""
    project = module_project()
    file = project.folder / "dbt_project.yml"
    settings = yaml.safe_load(file.read_text())
    with s3_server.running(port_of_s3_tables) as server:
        server.put("tables/x", "")
        for layer in LAYERS:
            settings["models"]["showcase"][layer]["+schema"] = f"cat_{layer}"
        for schema in ("log_cat", *(f"cat_{layer}" for layer in LAYERS)):
            spark.sql(f"create schema {schema} location 's3a://tables/{schema}'")
        file.write_text(yaml.safe_dump(settings, sort_keys=False))
        project.add("cat.sales", {"id": "int", "price": "string"}, "id")
        project.land("cat/sales/20240101-100000000.csv", "I,1,10.50\nI,2,20\n")
        # Fewer tables, fewer seconds.
        (project.folder / "models/history/cat/hist_cat__sales.sql").unlink()
        mart(project)
        assert tidemark(project, "run") == 0
        yield project


@pytest.fixture(autouse=True)
def _nothing_is_registered(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    lake_formation.mend(monkeypatch)
    memory().unlink(missing_ok=True)


def memory() -> Any:
    return paths.lake_dir() / "registered.json"


def mart(project: Project, more: str = "", **meta: Any) -> None:
    project.write("models/marts/dim_sales.sql", MART.replace("{more}", more))
    project.write("models/marts/_marts.yml", DESCRIBED.replace("META", json.dumps(meta)))


def tidemark(project: Project, *arguments: str) -> int:
    with project.here():
        return cli.main(arguments)


def entry(aws: AwsServer, database: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = aws.client("glue").get_table(DatabaseName=database, Name=name)["Table"]
    return found


def writes(aws: AwsServer) -> list[str]:
    """What was asked since the last time that may change something."""
    found = [re.split("[./]", call)[-1] for call in aws.calls]
    aws.calls.clear()
    return [call for call in found if not call.startswith(("Get", "List"))]


def test_every_table_is_in_the_catalog_as_it_is_in_the_lake(
    shop: Project, aws: AwsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    assert tidemark(shop, "catalog") == 0
    told = capfd.readouterr().out
    assert "Data Catalog: 3 new tables, 0 updated: cat_current.cur_cat__sales," in told
    assert "Skipped, because Athena cannot run Spark's views: cat_staging.stg_cat" in told

    dim = entry(aws, "cat_marts", "dim_sales")
    assert dim["Description"] == "One row per sale, as it is now."
    assert dim["StorageDescriptor"]["Location"] == "s3://tables/cat_marts/dim_sales"
    assert dim["StorageDescriptor"]["Columns"] == [
        {"Name": "id", "Type": "int"},
        {"Name": "price", "Type": "decimal(9,2)", "Comment": "What was paid."},
    ]
    log = entry(aws, "log_cat", "sales")
    assert log["PartitionKeys"] == [{"Name": "_is_delete", "Type": "boolean"}]
    assert "price" in [each["Name"] for each in log["StorageDescriptor"]["Columns"]]

    writes(aws)
    assert tidemark(shop, "catalog") == 0
    assert writes(aws) == []
    assert "3 tables were already up to date." in capfd.readouterr().out

    # What others have put there stays when a column comes.
    taken = ("Name", "TableType", "Parameters", "StorageDescriptor")
    theirs = {key: dim[key] for key in taken} | {"Owner": "someone"}
    aws.client("glue").update_table(DatabaseName="cat_marts", TableInput=theirs)
    shop.spark.sql("alter table cat_marts.dim_sales add column (region string)")
    before = shop.commits("cat_marts.dim_sales")
    writes(aws)
    assert tidemark(shop, "catalog") == 0
    assert writes(aws) == ["UpdateTable"]
    dim = entry(aws, "cat_marts", "dim_sales")
    assert dim["StorageDescriptor"]["Columns"][2] == {"Name": "region", "Type": "string"}
    assert dim["Owner"] == "someone"
    assert shop.commits("cat_marts.dim_sales") == before


def test_runs_register_what_changed_and_make_good_what_failed(
    shop: Project,
    aws: AwsServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TIDEMARK_CATALOG", "glue")
    monkeypatch.setenv("TIDEMARK_CATALOG_PREFIX", "shop_")
    mart(shop, ", 1 as one")
    broken = shop.write("models/marts/broken.sql", "select nothing_known as x")
    aws.answers["GetDatabase"] = ["AccessDeniedException"]
    assert tidemark(shop, "run") == 1
    told = capfd.readouterr()
    # Neither failure hides the other.
    assert "tidemark: dbt build failed: broken (error)." in told.err
    assert "\nSome tables could not be registered in the Data Catalog.\n" in told.err
    assert "database shop_cat_current: the role lacks permission" in told.err
    assert "Data Catalog: 2 new tables" in told.out
    assert shop.rows("cat_marts.dim_sales", ["id", "one"]) == [(1, 1), (2, 1)]

    # The next one registers what is missing, the one after it asks nothing.
    broken.unlink()
    writes(aws)
    assert tidemark(shop, "run") == 0
    assert writes(aws) == ["CreateDatabase", "CreateTable"]
    assert tidemark(shop, "run") == 0
    assert aws.calls == []

    # A load that brings no column needs nothing.
    shop.land("cat/sales/20240101-110000000.csv", "I,3,30\n")
    assert tidemark(shop, "run") == 0
    assert aws.calls == []


def test_dbt_build_registers_at_its_end(
    shop: Project, aws: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_CATALOG", "glue")
    aws.answers["CreateTable"] = ["ExpiredTokenException"]
    result = shop.dbt("build", "--select", "dim_sales")
    assert not result.success
    # dbt has its result, and the failure is a line of it.
    assert result.exception is None
    failed = [each for each in result.result.results if each.status == "error"]
    assert [each.node.name for each in failed] == ["showcase-on-run-end-0"]
    assert "the credentials have expired: get new ones" in failed[0].message
    assert entry(aws, "cat_marts", "dim_sales")

    mart(shop, ", 3 as three")
    writes(aws)
    shop.build("--select", "dim_sales")
    assert sorted(writes(aws)) == ["CreateTable", "UpdateTable"]
    columns = entry(aws, "cat_marts", "dim_sales")["StorageDescriptor"]["Columns"]
    assert [each["Name"] for each in columns] == ["id", "price", "three"]
    aws.calls.clear()
    shop.dbt("compile")
    assert aws.calls == []


def test_what_glue_cannot_have_is_named_and_the_others_are_registered(
    shop: Project, aws: AwsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    spark = shop.spark
    spark.sql("create table cat_marts.odd (at timestamp_ntz) using delta")
    local = paths.lake_dir() / "catalog_local"
    spark.sql(f"create schema cat_local location '{local}'")
    spark.sql("create table cat_local.here (id int) using delta")
    # Another lake's table of this name.
    glue = aws.client("glue")
    glue.create_database(DatabaseInput={"Name": "log_cat"})
    storage = {"Location": "s3://elsewhere/sales"}
    glue.create_table(
        DatabaseName="log_cat", TableInput={"Name": "sales", "StorageDescriptor": storage}
    )
    shop.write(
        "models/staging/local.yml",
        "sources:\n"
        "  - {name: cat_local, tables: [{name: here}, {name: not_there}]}\n"
        "  - {name: cat_marts, tables: [{name: odd}]}\n",
    )
    capfd.readouterr()
    assert tidemark(shop, "catalog") == 1
    told = capfd.readouterr()
    (shop.folder / "models/staging/local.yml").unlink()
    assert (
        "cat_marts.odd: the column at has the type timestamp_ntz, which Athena does not support"
    ) in told.err
    assert "log_cat.sales is already in the Data Catalog, at s3://elsewhere/sales, but" in told.err
    assert (
        "Athena reads only from S3, but these tables are elsewhere: cat_local.here. Set" in told.err
    )
    assert "2 new tables" in told.out
    assert entry(aws, "cat_marts", "dim_sales")
    assert entry(aws, "log_cat", "sales")["StorageDescriptor"] == storage


def test_lake_formation_gets_what_is_declared_and_loses_nothing(
    shop: Project, aws: AwsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    grants = [{"principal": ANALYSTS, "permissions": ["SELECT", "DESCRIBE"]}]
    mart(shop, lake_formation={"tags": {"domain": "sales"}, "grants": grants})
    assert tidemark(shop, "catalog") == 1
    missing = "cat_marts.dim_sales cannot be tagged domain=sales: there is no LF-Tag"
    assert missing in capfd.readouterr().err

    lake = aws.client("lakeformation")
    place = {"Table": {"DatabaseName": "cat_marts", "Name": "dim_sales"}}
    lake.create_lf_tag(TagKey="domain", TagValues=["sales"])
    assert tidemark(shop, "catalog") == 0
    told = capfd.readouterr().out
    assert "cat_marts.dim_sales is tagged domain=sales." in told
    assert f"{ANALYSTS} has DESCRIBE, SELECT on cat_marts.dim_sales." in told
    (tag,) = lake.get_resource_lf_tags(Resource=place)["LFTagsOnTable"]
    assert (tag["TagKey"], tag["TagValues"]) == ("domain", ["sales"])
    writes(aws)
    assert tidemark(shop, "catalog") == 0
    assert writes(aws) == []

    # What is declared no longer stays, and is told.
    auditors = ANALYSTS.replace("analysts", "auditors")
    others = [{"principal": auditors, "permissions": ["SELECT"]}]
    mart(shop, lake_formation={"tags": {"domain": "sales"}, "grants": others})
    assert tidemark(shop, "catalog") == 0
    stays = f"the grant {ANALYSTS}: SELECT is no longer declared, but still exists. To remove it"
    assert stays in capfd.readouterr().out
    permissions = lake.list_permissions(Resource=place)["PrincipalResourcePermissions"]
    who = {each["Principal"]["DataLakePrincipalIdentifier"] for each in permissions}
    assert who == {ANALYSTS, auditors}


def test_a_role_without_rights_is_told_which_it_lacks(
    shop: Project,
    aws: AwsServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    mart(shop, lake_formation={"grants": [{"principal": ANALYSTS, "permissions": ["SELECT"]}]})
    iam = aws.client("iam")
    iam.create_user(UserName="loader")
    key = iam.create_access_key(UserName="loader")["AccessKey"]
    may = {"Effect": "Allow", "Action": ["glue:*"], "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [may]})
    iam.put_user_policy(UserName="loader", PolicyName="all", PolicyDocument=policy)
    # boto3 looks for credentials once a process.
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    with lake_formation.rights_checked(aws, monkeypatch):
        assert tidemark(shop, "catalog") == 1
        told = capfd.readouterr()
        assert "3 new tables" in told.out
        assert "Lake Formation, tags of cat_marts.dim_sales: the role lacks permission" in told.err
        assert "lakeformation:GetResourceLFTags" in told.err
        assert key["SecretAccessKey"] not in told.err
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
