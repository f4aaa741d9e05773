"""List the tables of a schema reliably while tables are created and dropped."""

import time
from typing import Any

from dbt.adapters.spark.impl import (
    SCHEMA_NOT_FOUND_MESSAGES,
    TABLE_OR_VIEW_NOT_FOUND_MESSAGES,
    SparkAdapter,
)
from dbt_common.exceptions import DbtRuntimeError

_LISTING_TRIES = 8
_list_relations = SparkAdapter.list_relations_without_caching


def _list_relations_safely(self: SparkAdapter, schema_relation: Any) -> list[Any]:
    """Replaces SparkAdapter.list_relations_without_caching.

    If a table vanishes during listing, dbt-spark treats the schema as empty, and then replaces
    incremental tables and snapshots, with their history (dbt-adapters issue 1289).
    """
    for attempt in range(_LISTING_TRIES):
        try:
            rows = self.execute_macro(
                "list_relations_without_caching", kwargs={"schema_relation": schema_relation}
            )
            return list(
                self._build_spark_relation_list(
                    row_list=rows, relation_info_func=self._get_relation_information
                )
            )
        except DbtRuntimeError as error:
            message = str(error.msg)
            if any(text in message for text in SCHEMA_NOT_FOUND_MESSAGES):
                return []
            if "SHOW TABLE EXTENDED is not supported" in message:
                return list(_list_relations(self, schema_relation))
            if not any(text in message for text in TABLE_OR_VIEW_NOT_FOUND_MESSAGES):
                raise
            time.sleep(0.1 * 2**attempt)
    raise DbtRuntimeError(
        f"The tables of {schema_relation} could not be listed, because tables were dropped each "
        "time. Check whether another dbt is running on this schema."
    )


def install() -> None:
    """Install the replacement."""
    SparkAdapter.list_relations_without_caching = _list_relations_safely
