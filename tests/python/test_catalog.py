"""How a Delta table is described to the Data Catalog, and what of it can be wrong."""

import json
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from tidemark import runs
from tidemark.aws import catalog, glue_table
from tidemark.aws.declared import tables
from tidemark.errors import ConfigError

PLACE = "s3a://lake/tables/marts.db/sales/"


def table(*columns: StructField, **more: Any) -> glue_table.Table:
    return glue_table.Table("marts.sales", "marts", "sales", PLACE, StructType([*columns]), **more)


def field(name: str, data_type: Any, comment: str = "") -> StructField:
    return StructField(name, data_type, metadata={"comment": comment} if comment else {})


def test_a_table_has_what_athena_reads() -> None:
    nested = StructType([field("Nr", LongType()), field("tags", ArrayType(StringType()))])
    found = glue_table.fresh(
        table(
            field("Id", IntegerType(), "Spark's own"),
            field("day", DateType()),
            field("more", MapType(StringType(), nested)),
            partitions=["day"],
            description="Two\n  lines",
            columns={"day": "The day\nof it"},
        )
    )
    storage = found["StorageDescriptor"]
    assert storage["Columns"] == [
        {"Name": "id", "Type": "int", "Comment": "Spark's own"},
        {"Name": "more", "Type": "map<string,struct<nr:bigint,tags:array<string>>>"},
    ]
    assert found["PartitionKeys"] == [{"Name": "day", "Type": "date", "Comment": "The day of it"}]
    assert storage["Location"] == "s3://lake/tables/marts.db/sales"
    assert storage["SerdeInfo"]["Parameters"]["path"] == storage["Location"]
    assert (found["TableType"], found["Description"]) == ("EXTERNAL_TABLE", "Two lines")
    parameters = found["Parameters"]
    assert parameters["table_type"] == "DELTA"
    assert parameters["spark.sql.sources.provider"] == "delta"
    schema = json.loads(parameters["spark.sql.sources.schema"])
    assert [each["name"] for each in schema["fields"]] == ["Id", "day", "more"]


def test_texts_are_as_long_as_glue_takes_them() -> None:
    long = table(field("id", IntegerType(), "x" * 300), description="y" * 3000)
    found = glue_table.fresh(long)
    (column,) = found["StorageDescriptor"]["Columns"]
    assert column["Comment"] == "x" * 252 + "..."
    assert found["Description"] == "y" * 2045 + "..."


def test_what_others_have_put_into_an_entry_stays() -> None:
    there = glue_table.fresh(table(field("id", IntegerType())))
    there |= {"Owner": "someone", "Retention": 3, "TableType": "MANAGED_TABLE"}
    there["Parameters"] |= {"theirs": "1", "spark.sql.sources.schema.numParts": "2"}
    (column,) = there["StorageDescriptor"]["Columns"]
    column["Parameters"] = {"steward": "Ada"}
    column["Comment"] = "theirs"
    found = glue_table.refreshed(table(field("id", LongType()), field("x", StringType())), there)
    assert (found["Owner"], found["Retention"], found["TableType"]) == (
        "someone",
        3,
        "MANAGED_TABLE",
    )
    assert found["Parameters"]["theirs"] == "1"
    assert "spark.sql.sources.schema.numParts" not in found["Parameters"]
    assert found["StorageDescriptor"]["Columns"] == [
        {"Name": "id", "Type": "bigint", "Comment": "theirs", "Parameters": {"steward": "Ada"}},
        {"Name": "x", "Type": "string"},
    ]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([field("at", TimestampNTZType())], "the column at has the type timestamp_ntz, which"),
        ([field("no", NullType())], "the column no has the type void"),
        ([field("i", ArrayType(DayTimeIntervalType()))], "the column i has the type interval day"),
        ([field("a", IntegerType()), field("A", IntegerType())], "two columns are called a in"),
        ([field("s", StructType([field("a b", LongType())]))], "column s has a field 'a b'"),
    ],
)
def test_a_table_that_glue_cannot_have_is_a_sentence(
    columns: list[StructField], words: str
) -> None:
    with pytest.raises(glue_table.RefusedError, match=f"^marts.sales: .*{words}") as told:
        glue_table.fresh(table(*columns))
    assert "in the model" in str(told.value)


def test_a_placeholder_of_spark_is_known_by_its_path() -> None:
    storage = {
        "Location": "s3://lake/tables/marts.db/sales-__PLACEHOLDER__",
        "SerdeInfo": {"Parameters": {"path": PLACE}},
    }
    assert glue_table.location_of({"StorageDescriptor": storage}) == PLACE.rstrip("/").replace(
        "s3a", "s3"
    )


def model(**more: Any) -> dict[str, Any]:
    return {
        "resource_type": "model",
        "schema": "marts",
        "name": "sales",
        "alias": "sales",
        "original_file_path": "models/marts/sales.sql",
        "patch_path": "shop://models/marts/_sales.yml",
        **more,
    }


def access(lake_formation: Any, column: Any = None) -> dict[str, Any]:
    meta = {"config": {"meta": {"lake_formation": column}}} if column else {}
    return model(
        config={"meta": {"lake_formation": lake_formation}},
        columns={"Price": {"name": "Price", **meta}},
    )


def test_tags_and_grants_are_read_from_the_model_s_yaml() -> None:
    grants = [{"principal": "arn:aws:iam::1:role/r", "permissions": ["SELECT", "DESCRIBE"]}]
    (found,) = tables(
        [access({"tags": {"Domain": "Sales"}, "grants": grants}, {"tags": {"pii": "no"}})]
    )
    assert found.access.entries() == {
        ("tag", "domain", "sales"),
        ("tag of price", "pii", "no"),
        ("grant", "arn:aws:iam::1:role/r", "SELECT"),
        ("grant", "arn:aws:iam::1:role/r", "DESCRIBE"),
    }


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        (["tags"], "is not a mapping"),
        ({"tag": {"a": "b"}}, "'tag' is not a known setting"),
        ({"tags": {"a": ["b", "c"]}}, "the tag a: .* must map one text to one text"),
        ({"grants": {"principal": "x"}}, "are not a list"),
        ({"grants": [{"principal": "x"}]}, "must have principal and permissions only"),
        (
            {"grants": [{"principal": "x", "permissions": ["READ"]}]},
            "'READ' is not one of ALL, SELECT",
        ),
    ],
)
def test_wrong_meta_is_a_sentence_that_names_the_file(meta: Any, words: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^models/marts/_sales.yml, sales: .*{words}.*; expected"
    ):
        tables([access(meta)])


def test_grants_are_not_for_columns() -> None:
    with pytest.raises(ConfigError, match="'grants' is not a known setting"):
        tables([access(None, {"grants": []})])


def test_tests_and_what_is_left_out_are_no_tables() -> None:
    test = model(resource_type="test")
    assert tables([test, model(config={"meta": {"catalog": False}})]) == []


def test_another_catalog_and_an_odd_prefix_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_CATALOG", "hive")
    with pytest.raises(ConfigError, match="is 'hive': it must be glue or rest"):
        runs.registers()
    monkeypatch.setenv("TIDEMARK_CATALOG_PREFIX", "Lake-")
    with pytest.raises(
        ConfigError, match="TIDEMARK_CATALOG_PREFIX is 'Lake-'. Use only lower-case"
    ):
        catalog.prefix()
