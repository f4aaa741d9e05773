"""Hudi: its merge, the properties of its tables, and what it cannot do."""

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from tests.macros.rendered import CompilerError, Macros
from tests.macros.test_formats import NOT_NULL, macros, node

TABLE: dict[str, Any] = {"file_format": "hudi", "unique_key": "id"}
MERGED = TABLE | {"materialized": "incremental", "incremental_strategy": "merge"}


@pytest.mark.parametrize("config", [TABLE, MERGED, TABLE | {"unique_key": ["id", "part"]}])
def test_such_a_node_is_in_sparks_own_catalog(config: dict[str, Any]) -> None:
    assert macros().spark__generate_database_name(None, node(**config)) is None


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (node("seed", materialized="seed", file_format="hudi"), "Only models can have it"),
        (node("snapshot", **TABLE, materialized="snapshot"), "Only models can have it"),
        (node("test", materialized="test", file_format="hudi"), "Set file_format: delta"),
        (node(**TABLE | {"materialized": "clone"}), "that are tables or incremental"),
        (node(language="python", **TABLE), "A Python model cannot"),
        (node(file_format="hudi"), "Set unique_key"),
        (node(**MERGED | {"incremental_strategy": "append"}), "Set incremental_strategy: merge"),
        (node(**MERGED | {"incremental_strategy": None}), "Set incremental_strategy: merge"),
        (node(**MERGED, incremental_predicates=["a"]), "compares only the key"),
        (node(**TABLE, partition_by="day"), "Remove partition_by"),
        (node(**TABLE, full_refresh=False), "Remove full_refresh: false"),
        (node(**TABLE, location_root="/here"), "Remove location_root"),
        (
            node(**TABLE, columns=NOT_NULL, contract=SimpleNamespace(enforced=True)),
            "do not check constraints",
        ),
    ],
)
def test_what_it_cannot_do(one: Any, said: str) -> None:
    with pytest.raises(CompilerError, match=f"it has file_format: hudi, which .*{said}"):
        macros().spark__generate_database_name(None, one)


def test_what_the_target_cannot_do() -> None:
    with pytest.raises(CompilerError, match="Only Spark 3.5[.] Or set another file_format"):
        macros("Only Spark 3.5").spark__generate_database_name(None, node(**TABLE))


def merge(**config: Any) -> str:
    built = Macros(
        is_incremental=True,
        answers=[{"one": 1}],
        columns=["id", "part", ("v", "smallint")],
        config=MERGED | {"on_schema_change": "append_new_columns"} | config,
    )
    # What the catalog says of the table.
    relation: Any = SimpleNamespace(database=None, is_hudi=True)
    return " ".join(
        built.spark__get_merge_sql(relation, "rows", config["unique_key"], [], None).split()
    )


def test_a_merge_compares_only_the_key_and_its_clauses_exclude_each_other() -> None:
    deletes = "DBT_INTERNAL_SOURCE._op = 'D'"
    sql = merge(unique_key=["id", "part"], delete_condition=deletes, skip_unchanged=True)
    assert (
        "on DBT_INTERNAL_SOURCE.id = DBT_INTERNAL_DEST.id and DBT_INTERNAL_SOURCE.part = "
        f"DBT_INTERNAL_DEST.part when matched and {deletes} then delete "
        f"when matched and (not coalesce({deletes}, false)) and (not ("
    ) in sql


@pytest.mark.parametrize(
    ("key", "name"), [("größe", "`größe`"), ("`a b`", "`a b`"), ("a.größe", "a.größe")]
)
def test_a_merge_quotes_a_key_unless_the_model_has(key: str, name: str) -> None:
    assert f"on DBT_INTERNAL_SOURCE.{name} = DBT_INTERNAL_DEST.{name} when" in merge(unique_key=key)


def test_a_key_of_several_columns_is_checked_for_texts_that_hudi_confuses() -> None:
    sql = merge(unique_key=["id", "part"])
    assert "using ( select `id`, `part`, cast(`v` as int) as `v` from rows where case when" in sql
    assert "contains(cast(`id` as string), ',part:')" in sql
    assert "where" not in merge(unique_key="id")


def test_a_table_keeps_its_format() -> None:
    built = Macros(answers=[{"one": 1}], config=MERGED)
    relation: Any = SimpleNamespace(database=None, is_hudi=False)
    model: Any = built._context["model"]
    model.name = "it"
    with pytest.raises(CompilerError, match="table with file_format: delta, but its model now has"):
        built.require_format_of_table(relation)


def properties(key: Any, kind: str = "int", code: str = "select 1", **config: Any) -> str:
    found = Macros(config=TABLE | {"unique_key": key} | config, compiled_code=code)
    found._context["run_query"] = lambda sql: SimpleNamespace(rows=[("Id", kind, None)])
    found._environment.globals["run_query"] = found._context["run_query"]
    node_of: Any = found._context["model"]
    node_of.name = "it"
    node_of.config = TABLE | {"unique_key": key, "materialized": "table"}
    node_of.resource_type, node_of.language = "model", "sql"
    node_of.columns, node_of.constraints = {}, []
    return str(found.spark__tblproperties_clause())


def test_a_table_is_created_with_its_key() -> None:
    text = properties(["id", "part"], tblproperties={"type": "mor"})
    assert "'primaryKey' = 'id,part'" in text
    assert "'hoodie.populate.meta.fields' = 'false'" in text
    assert "'type' = 'mor'" in text
    assert "'hoodie.compact.inline' = 'true'" in text
    assert "compact" not in properties("id")
    assert "'primaryKey' = 'id'," in properties("id")


def test_a_property_with_an_equals_sign_is_refused() -> None:
    with pytest.raises(CompilerError, match="cannot be a hudi table: its property a has a =, on"):
        properties("id", tblproperties={"a": "x <=> y"})


def test_an_equals_sign_in_the_derivation_is_escaped() -> None:
    text = properties("id", code='-- tidemark.derived_from: {"partial rows": {"x": "a <=> b"}}')
    (told,) = re.findall("'tidemark.derived_from' = '(.*)'", text)
    assert "=" not in told
    assert json.loads(told.replace(2 * chr(92), chr(92))) == {"partial rows": {"x": "a <=> b"}}


@pytest.mark.parametrize("kind", ["decimal(9,2)", "double", "binary", "date", "timestamp"])
def test_a_key_of_a_type_that_hudi_confuses_is_refused(kind: str) -> None:
    with pytest.raises(CompilerError, match="can get a key twice whose column id is a"):
        properties("id", kind)


def test_its_options_are_those_of_the_model() -> None:
    assert "primaryKey" not in Macros(config=TABLE).spark__options_clause()
    text = Macros(config=TABLE | {"options": {"a": 1, "b": 2}}).spark__options_clause()
    assert " ".join(text.split()) == 'options ( a "1", b "2" )'


def test_its_versions_do_not_name_runs() -> None:
    relation: Any = SimpleNamespace(schema="marts", identifier="it")
    with pytest.raises(CompilerError, match="Use a time instead.*show_commits.table => 'marts.it'"):
        Macros()._versions_of_hudi(relation)
