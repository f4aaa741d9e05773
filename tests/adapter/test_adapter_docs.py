"""dbt's suites for `docs generate`."""

from typing import Any

import pytest
from dbt.tests.adapter.basic import expected_catalog as catalogs
from dbt.tests.adapter.basic.test_docs_generate import BaseDocsGenerate, BaseDocsGenReferences
from dbt.tests.adapter.basic.test_get_catalog_for_single_relation import (
    BaseGetCatalogForSingleRelation,
)
from dbt.tests.adapter.catalog import files
from dbt.tests.adapter.catalog.relation_types import CatalogRelationTypes

pytestmark = [pytest.mark.functional, pytest.mark.adapter, pytest.mark.slow]

CATALOG = "dbt-spark's catalog counts columns from 0, and calls the bigint of a view long"

# Spark's names of types and of kinds of relations; tables belong to who runs Spark.
WORDS = {
    "role": "root",
    "id_type": "bigint",
    "text_type": "string",
    "time_type": "timestamp",
    "view_type": "view",
    "table_type": "table",
}


@pytest.mark.xfail(reason=CATALOG, strict=True)
class TestDocsGenerate(BaseDocsGenerate):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any) -> Any:
        return catalogs.base_expected_catalog(project, model_stats=catalogs.no_stats(), **WORDS)


@pytest.mark.xfail(reason=CATALOG, strict=True)
class TestDocsGenReferences(BaseDocsGenReferences):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any) -> Any:
        return catalogs.expected_references_catalog(
            project, model_stats=catalogs.no_stats(), bigint_type="bigint", **WORDS
        )


@pytest.mark.skip(reason="dbt-spark has no get_catalog_for_single_relation")
class TestGetCatalogForSingleRelation(BaseGetCatalogForSingleRelation):
    pass


class TestCatalogRelationTypes(CatalogRelationTypes):
    """Without the materialized view, which Spark's own catalog does not have."""

    @pytest.fixture(scope="class", autouse=True)
    def models(self) -> Any:
        return {"my_table.sql": files.MY_TABLE, "my_view.sql": files.MY_VIEW}

    @pytest.mark.parametrize(
        ("node_name", "relation_type"),
        [
            ("seed.test.my_seed", "table"),
            ("model.test.my_table", "table"),
            ("model.test.my_view", "view"),
        ],
    )
    def test_relation_types_populate_correctly(
        self, docs: Any, node_name: str, relation_type: str
    ) -> None:
        super().test_relation_types_populate_correctly(docs, node_name, relation_type)
