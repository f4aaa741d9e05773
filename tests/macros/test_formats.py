"""What a table format cannot do is refused with a sentence, when dbt parses the project."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.macros.rendered import CompilerError, Macros


def node(resource_type: str = "model", language: str = "sql", **config: Any) -> Any:
    columns = config.pop("columns", {})
    return SimpleNamespace(
        name="it",
        resource_type=resource_type,
        language=language,
        columns=columns,
        config={"file_format": "iceberg", "materialized": "table"} | config,
    )


def macros(problem: str = "") -> Macros:
    return Macros(format_problem=problem)


MERGED: dict[str, Any] = {"materialized": "incremental", "incremental_strategy": "merge"}
NOT_NULL = {"id": SimpleNamespace(constraints=[{"type": "not_null"}])}


@pytest.mark.parametrize(
    "one",
    [
        node(),
        node(**MERGED),
        node(language="python"),
        node("seed", materialized="seed"),
        node("snapshot", materialized="snapshot"),
        node(columns=NOT_NULL, contract=SimpleNamespace(enforced=False)),
    ],
)
def test_such_a_node_has_the_catalog_of_its_format(one: Any) -> None:
    assert macros().spark__generate_database_name(None, one) == "iceberg"


@pytest.mark.parametrize(
    "one",
    [
        node(materialized="view"),
        node(materialized="ephemeral"),
        # The export of a saved query.
        SimpleNamespace(resource_type="export", config=SimpleNamespace(export_as="table")),
    ],
)
def test_a_view_has_no_format(one: Any) -> None:
    assert macros("No.").spark__generate_database_name(None, one) is None


def test_delta_is_in_sparks_own_catalog() -> None:
    one = node(file_format="delta", materialized="clone", location_root="/here")
    assert macros().spark__generate_database_name(None, one) is None


def test_a_lake_of_iceberg_has_no_other_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_FORMAT", "iceberg")
    for one in (node(), node("test", materialized="test")):
        assert macros().spark__generate_database_name(None, one) is None
    assert macros().file_column() == "_landed_file"
    with pytest.raises(CompilerError, match="file_format: delta, which does not work here. No."):
        macros("No").spark__generate_database_name(None, node(file_format="delta"))


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (node("test", materialized="test"), r"only stored in Delta tables. Set \+file_format: del"),
        (node(materialized="clone"), "Tables, incremental models, seeds and snapshots can have it"),
        (node(**MERGED | {"incremental_strategy": "insert_overwrite"}), "to merge or append"),
        (node(language="python", **MERGED), "A Python model can have it if it is a table"),
        (node(location_root="/here"), "Remove location_root"),
        (node(columns=NOT_NULL, contract=SimpleNamespace(enforced=True)), "do not check constrain"),
    ],
)
def test_what_iceberg_cannot_do(one: Any, said: str) -> None:
    sentence = f"^it has file_format: iceberg, which does not work here. .*{said}.*[.]$"
    with pytest.raises(CompilerError, match=sentence):
        macros().spark__generate_database_name(None, one)


def test_what_the_target_cannot_do() -> None:
    with pytest.raises(
        CompilerError, match="not work here. Only embedded Spark[.] Or set another file_format"
    ):
        macros("Only embedded Spark").spark__generate_database_name(None, node())


@pytest.mark.parametrize(
    ("old", "new", "in_place"),
    [
        ("int", "bigint", True),
        ("float", "double", True),
        ("decimal(9,2)", "decimal(12,2)", True),
        ("decimal(9,2)", "decimal(12,3)", False),
        ("int", "double", False),
        ("int", "decimal(20,0)", False),
    ],
)
def test_iceberg_widens_few_types_in_its_metadata(old: str, new: str, in_place: bool) -> None:
    assert Macros().iceberg_format()["widens"](old, new) is in_place


def test_only_a_format_that_commits_nothing_needs_to_look_for_rows() -> None:
    assert not Macros(config={"file_format": "delta"}).nothing_to_merge("new")
    is_iceberg = {"file_format": "iceberg"}
    assert Macros(config=is_iceberg, answers=[[]]).nothing_to_merge("new")
    assert not Macros(config=is_iceberg, answers=[{"one": 1}]).nothing_to_merge("new")
