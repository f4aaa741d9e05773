"""Look tables up one by one, and reliably while other tables are created and dropped."""

import re
import threading
import time
from collections.abc import Callable
from typing import Any

from dbt.adapters.spark.impl import (
    SCHEMA_NOT_FOUND_MESSAGES,
    TABLE_OR_VIEW_NOT_FOUND_MESSAGES,
    SparkAdapter,
)
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.invocation import get_invocation_id

_TRIES = 8
# In a name with other characters, Spark would see a pattern.
_PLAIN = re.compile(r"[A-Za-z0-9_]+")


def _list_relations(self: SparkAdapter, relation: Any) -> list[Any]:
    """Replaces SparkAdapter.list_relations_without_caching.

    If a table vanishes during listing, dbt-spark treats the schema as empty, and then replaces
    incremental tables and snapshots, with their history (dbt-adapters issue 1289).

    A relation with an identifier gives this table alone, if it is there.
    """
    name = relation.identifier if _PLAIN.fullmatch(relation.identifier or "") else "*"
    where = f"in {relation.schema} like '{name}'"
    for attempt in range(_TRIES):
        try:
            return _rows(self, f"show table extended {where}", self._get_relation_information)
        except DbtRuntimeError as error:
            message = str(error.msg)
            if any(text in message for text in SCHEMA_NOT_FOUND_MESSAGES):
                return []
            if "SHOW TABLE EXTENDED is not supported" in message:
                described = self._get_relation_information_using_describe
                return _rows(self, f"show tables {where}", described)
            if not any(text in message for text in TABLE_OR_VIEW_NOT_FOUND_MESSAGES):
                raise
            time.sleep(0.1 * 2**attempt)
    raise DbtRuntimeError(
        f"The tables of {relation.schema} could not be listed, because tables were dropped each "
        "time. Check whether another dbt is running on this schema."
    )


def _rows(self: SparkAdapter, statement: str, information: Callable[[Any], Any]) -> list[Any]:
    _, rows = self.execute(statement, fetch=True)
    return list(self._build_spark_relation_list(row_list=rows, relation_info_func=information))


def _get_relation(self: SparkAdapter, database: Any, schema: str, identifier: str) -> Any:
    """Replaces SparkAdapter.get_relation, which needs a listing of the schema.

    Spark reads the metadata of every table that it lists, also of those of other projects. With
    hundreds of tables in a schema, a listing takes seconds.
    """
    asked = self.__dict__.setdefault("_tidemark_asked", set())
    name = (schema.lower(), identifier.lower())

    def known() -> list[Any]:
        cached = self.cache.get_relations(None, schema)
        return list(self._make_match(cached, None, schema, identifier))

    found = known()
    if not found and name not in asked:
        for each in _list_relations(
            self, self.Relation.create(schema=schema, identifier=identifier)
        ):
            self.cache.add(each)
        # From now on, dbt tells the cache of what it creates and drops, also of whole schemas.
        self.cache.update_schemas([(None, schema)])
        asked.add(name)
        found = known()
    return found[0] if found else None


_list_schemas = SparkAdapter.list_schemas
_one_lists = threading.Lock()


def _list_schemas_once(self: SparkAdapter, database: Any) -> list[str]:
    """Replaces SparkAdapter.list_schemas: dbt asks once for each schema, always the same."""
    invocation = get_invocation_id()
    with _one_lists:
        asked, schemas = self.__dict__.get("_tidemark_schemas", (None, []))
        if asked != invocation:
            schemas = _list_schemas(self, database)
            self.__dict__["_tidemark_schemas"] = (invocation, schemas)
        return list(schemas)


def _forget_relations(self: SparkAdapter, *_: Any) -> None:
    """Replaces SparkAdapter._relations_cache_for_schemas, which lists schemas in advance."""
    self.__dict__.pop("_tidemark_asked", None)


def install() -> None:
    """Install the replacements."""
    SparkAdapter.list_relations_without_caching = _list_relations
    SparkAdapter.get_relation = _get_relation
    SparkAdapter.list_schemas = _list_schemas_once
    SparkAdapter._relations_cache_for_schemas = _forget_relations
    # No schema is known as a whole, also not after a table in it was renamed.
    SparkAdapter._schema_is_cached = lambda *_: False
