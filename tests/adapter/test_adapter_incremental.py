"""dbt's suites for incremental models, with the merge of macros/overrides."""

from typing import Any

import pytest
from dbt.tests.adapter.basic.test_incremental import (
    BaseIncremental,
    BaseIncrementalBadStrategy,
    BaseIncrementalNotSchemaChange,
)
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import (
    BaseMergeExcludeColumns,
)
from dbt.tests.adapter.incremental.test_incremental_microbatch import BaseMicrobatch
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import (
    BaseIncrementalOnSchemaChange,
)
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey

pytestmark = [pytest.mark.functional, pytest.mark.adapter, pytest.mark.slow]

KEYLESS = "a merge without unique_key is an error here, not an append: spark__get_merge_sql"


def merged(**settings: Any) -> dict[str, Any]:
    """A project whose incremental models merge; dbt-spark would append."""
    return {"models": {"+incremental_strategy": "merge", **settings}}


class TestIncremental(BaseIncremental):
    pass


class TestIncrementalNotSchemaChange(BaseIncrementalNotSchemaChange):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return merged()


class TestIncrementalBadStrategy(BaseIncrementalBadStrategy):
    @pytest.mark.xfail(reason="dbt-spark refuses it in words of its own", strict=True)
    def test_incremental_invalid_strategy(self, project: Any) -> None:
        super().test_incremental_invalid_strategy(project)


class TestMergeExcludeColumns(BaseMergeExcludeColumns):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return merged()


class TestMicrobatch(BaseMicrobatch):
    @pytest.fixture(scope="class")
    def microbatch_model_sql(self) -> str:
        """dbt-spark overwrites partitions, and wants to be told which."""
        return """
{{ config(
    materialized='incremental', incremental_strategy='microbatch', partition_by=['day'],
    unique_key='id', event_time='event_time', batch_size='day',
    begin=modules.datetime.datetime(2020, 1, 1, 0, 0, 0)
) }}
select *, date(event_time) as day from {{ ref('input_model') }}
"""


class TestIncrementalOnSchemaChange(BaseIncrementalOnSchemaChange):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        # Delta drops columns of tables with this property alone.
        return merged(**{"+tblproperties": {"delta.columnMapping.mode": "name"}})


class TestIncrementalPredicates(BaseIncrementalPredicates):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return merged(**{"+incremental_predicates": ["DBT_INTERNAL_DEST.id != 2"]})


class TestIncrementalUniqueKey(BaseIncrementalUniqueKey):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return merged()

    @pytest.mark.xfail(reason=KEYLESS, strict=True)
    def test__no_unique_keys(self, project: Any) -> None:
        super().test__no_unique_keys(project)

    @pytest.mark.xfail(reason=KEYLESS, strict=True)
    def test__empty_str_unique_key(self, project: Any) -> None:
        super().test__empty_str_unique_key(project)

    @pytest.mark.xfail(reason=KEYLESS, strict=True)
    def test__empty_unique_key_list(self, project: Any) -> None:
        super().test__empty_unique_key_list(project)
