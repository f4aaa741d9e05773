"""Look tables up one by one, and reliably while other tables are created and dropped.

In a Delta lake, tables in another format are in a catalog of their own, the relation's `database`,
if the format can have one.
"""

import re
import threading
import time
from collections.abc import Callable
from typing import Any

from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.spark.impl import (
    SCHEMA_NOT_FOUND_MESSAGES,
    TABLE_OR_VIEW_NOT_FOUND_MESSAGES,
    SparkAdapter,
)
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.events.contextvars import get_node_info
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.invocation import get_invocation_id

from tidemark import formats
from tidemark.errors import TidemarkError
from tidemark.formats.format import OF_SPARK, Format
from tidemark.ingest import books

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
    where = f"{relation.schema} like '{name}'"
    others = (each for format in _own_catalogs(self) for each in _in_catalog(self, format, where))
    return [*_in_metastore(self, relation.schema, where), *others]


def _in_metastore(self: SparkAdapter, schema: str, where: str) -> list[Any]:
    for attempt in range(_TRIES):
        try:
            return _rows(self, f"show table extended in {where}", self._get_relation_information)
        except DbtRuntimeError as error:
            message = str(error.msg)
            if any(text in message for text in SCHEMA_NOT_FOUND_MESSAGES):
                return []
            if "SHOW TABLE EXTENDED is not supported" in message:
                described = self._get_relation_information_using_describe
                return _rows(self, f"show tables in {where}", described)
            if not any(text in message for text in TABLE_OR_VIEW_NOT_FOUND_MESSAGES):
                raise
            time.sleep(0.1 * 2**attempt)
    raise DbtRuntimeError(
        f"The tables of {schema} could not be listed, because tables were dropped each "
        "time. Check whether another dbt is running on this schema."
    )


def _rows(self: SparkAdapter, statement: str, information: Callable[[Any], Any]) -> list[Any]:
    _, rows = self.execute(statement, fetch=True)
    found = self._build_spark_relation_list(row_list=rows, relation_info_func=information)
    own = _own_catalogs(self)
    # An entry in the metastore is from before the format had a catalog of its own.
    known = (each for each in found if formats.of_listed(each.information or "") not in own)
    return [_in_its_catalog(self, each) for each in known]


def _own_catalogs(self: SparkAdapter) -> list[Format]:
    """The formats whose tables are not in the metastore."""
    try:
        return [each for each in formats.OTHERS.values() if each.catalog and _has(self, each)]
    except TidemarkError as error:
        raise DbtRuntimeError(str(error)) from error


def _has(self: SparkAdapter, format: Format) -> bool:
    """Whether the target's Spark has the catalog of a format, or what it has instead."""
    known = self.__dict__.setdefault("_tidemark_catalogs", {})
    asked = get_invocation_id(), format.name
    if asked not in known:
        own = next(iter(format.of_session), f"spark.sql.catalog.{format.name}")
        _, rows = self.execute(f"set {own}", fetch=True)
        known[asked] = rows[0][1] not in ("<undefined>", "")
    return bool(known[asked])


def _in_catalog(self: SparkAdapter, format: Format, where: str) -> list[Any]:
    """The tables in the catalog of a format."""
    try:
        _, rows = self.execute(f"show tables in {format.name}.{where}", fetch=True)
    except DbtRuntimeError as error:
        if any(text in str(error.msg) for text in SCHEMA_NOT_FOUND_MESSAGES):
            return []
        raise
    told = {"database": format.name, "type": RelationType.Table, f"is_{format.name}": True}
    return [self.Relation.create(schema=row[0], identifier=row[1], **told) for row in rows]


def _in_its_catalog(self: SparkAdapter, relation: Any) -> Any:
    """The relation with its format: of another one than Delta, dbt-spark reads `Provider: hive`.

    So it would drop and create again what it must replace, and refuse the table of a snapshot. In
    a Spark without the catalog, the tables are others'.
    """
    format = formats.of_listed(relation.information or "")
    if format is None or not (format.is_of_lake or _has(self, format)):
        return relation
    path = {} if format.spark_catalog == OF_SPARK else {"database": format.name}
    return relation.incorporate(path=path, **{f"is_{format.name}": True})


def _get_relation(self: SparkAdapter, database: Any, schema: str, identifier: str) -> Any:
    """Replaces SparkAdapter.get_relation, which needs a listing of the schema.

    Spark reads the metadata of every table that it lists, also of those of other projects. With
    hundreds of tables in a schema, a listing takes seconds.

    A node's own table in another catalog than it should be is refused: dbt would take it for
    missing, or for the new one. So is a table that the catalog has lost: another format than Delta
    would begin it anew in its folder.
    """
    asked = self.__dict__.setdefault("_tidemark_asked", set())
    name = (schema.lower(), identifier.lower())

    def known() -> list[Any]:
        catalogs = (None, *formats.OTHERS)
        cached = [each for name in catalogs for each in self.cache.get_relations(name, schema)]
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
    wanted = database if database in formats.OTHERS else None
    if not found:
        format = formats.OTHERS[wanted] if wanted else formats.of_lake()
        if format is not formats.DELTA:
            _require_not_lost(format, *name)
        return None
    # A catalog with names of its own may have the same name.
    found.sort(key=lambda each: each.database != wanted)
    if found[0].database != wanted and _is_own(found[0]):
        raise DbtRuntimeError(_in_another_format(found[0], wanted))
    return found[0]


def _is_own(relation: Any) -> bool:
    """Whether a table is that of the node that dbt builds now. The metastore has no capitals."""
    own = get_node_info().get("node_relation") or {}
    names = (own.get("schema"), own.get("alias")), (relation.schema, relation.identifier)
    mine, other = ([str(name).lower() for name in each] for each in names)
    return mine == other


def _require_not_lost(format: Format, schema: str, identifier: str) -> None:
    registers = format.registers(f"{format.spark_catalog}.{schema}.{identifier}")
    if registers:
        raise DbtRuntimeError(
            f"{books.place(f'{schema}.{identifier}')} has a table in {format.title}'s format that "
            "the catalog does not have, so nothing was written. Register it (tidemark sql "
            f'"{registers}"), or delete the folder to begin the table anew.'
        )


def _in_another_format(found: Any, wanted: str | None) -> str:
    kind = f"a table with file_format: {found.database or 'delta'}"
    drop = f"drop table {found}{' purge' if found.database else ''}"
    if found.is_view:
        kind, drop = "a view", f"drop view {found}"
    return (
        f"{found} is {kind}, but its model now has file_format: {wanted or 'delta'}. A table keeps "
        "its format, so nothing was written. Revert the change, or drop it (tidemark sql "
        f"'{drop}') and build it again. A snapshot then loses its history."
    )


def require_format(self: SparkAdapter, name: str | None) -> None:
    """Refuse a format that this Spark was started without, before anything is written.

    The project's files do not name it, or Spark was started by an earlier command or by a host.
    Each later Spark of this lake has it.
    """
    format = formats.OTHERS.get((name or "").strip("`"))
    if format is None:
        return
    try:
        has_format = _has(self, format)
        formats.require_catalogs()
    except TidemarkError as error:
        raise DbtRuntimeError(str(error)) from error
    formats.note([format])
    if has_format:
        return
    if self.config.credentials.method == "thrift":
        raise DbtRuntimeError(
            f"The Thrift server has no catalog {format.name}, so nothing was written. Restart it "
            "(tidemark thrift stop; tidemark thrift start). Your own server needs the jar and the "
            "settings in docs/targets/thrift.md."
        )
    raise DbtRuntimeError(
        f"Spark was started before Tidemark knew that this project has {format.title} tables, "
        "so nothing was written. The next Spark has what they need: run the command again (if "
        "Spark is up, first: tidemark down)."
    )


_list_schemas = SparkAdapter.list_schemas
_one_lists = threading.Lock()


def _list_schemas_once(self: SparkAdapter, database: Any) -> list[str]:
    """Replaces SparkAdapter.list_schemas: dbt asks once for each schema, always the same.

    A catalog has the metastore's schemas. If it has names of its own, it must have them, too.
    """
    require_format(self, database)
    wanted = (database or "").strip("`")
    names = next((each.name for each in _own_catalogs(self) if each.name == wanted), None)
    invocation = get_invocation_id()
    with _one_lists:
        asked, known = self.__dict__.get("_tidemark_schemas", (None, {}))
        if asked != invocation:
            known = {None: _list_schemas(self, None)}
            self.__dict__["_tidemark_schemas"] = (invocation, known)
        if names not in known:
            _, rows = self.execute(f"show schemas in {names}", fetch=True)
            own = {row[0] for row in rows}
            known[names] = [schema for schema in known[None] if schema in own]
        return list(known[names])


def _forget_relations(self: SparkAdapter, *_: Any) -> None:
    """Replaces SparkAdapter._relations_cache_for_schemas, which lists schemas in advance."""
    self.__dict__.pop("_tidemark_asked", None)


_drop_relation = SparkAdapter.drop_relation


def _drop_unless_replaced(self: SparkAdapter, relation: Any) -> None:
    """Replaces SparkAdapter.drop_relation, with which a full refresh of other tables begins.

    dbt-spark then runs `create or replace table`, so readers and a killed build lose nothing. A
    format that cannot replace a table needs the drop.
    """
    is_incremental = get_node_info().get("materialized") == "incremental"
    is_other = any(
        each.replaces and relation.__dict__.get(f"is_{name}")
        for name, each in formats.OTHERS.items()
    )
    if is_other and is_incremental and _is_own(relation):
        return
    _drop_relation(self, relation)


_get_catalog_schemas = SparkAdapter._get_catalog_schemas


def _all_schemas(self: SparkAdapter, relation_configs: Any) -> Any:
    """Replaces SparkAdapter._get_catalog_schemas: dbt docs would refuse more than one catalog."""
    found = _get_catalog_schemas(self, relation_configs)
    if not found:
        return found
    first, *others = found
    for each in others:
        found[first] |= found.pop(each)
    return found


_get_columns_for_catalog = SparkAdapter._get_columns_for_catalog


def _columns_for_catalog(self: SparkAdapter, relation: Any) -> Any:
    """Replaces SparkAdapter._get_columns_for_catalog, which leaves out the catalog.

    The number of rows and bytes that Spark gives is from the table's creation, so it is left out.
    """
    for column in _get_columns_for_catalog(self, relation):
        told = {name: value for name, value in column.items() if not name.startswith("stats:")}
        yield {**told, "table_database": relation.database}


_check_relation = SparkRelation.__post_init__


def _allow_catalog(self: SparkRelation) -> None:
    """Replaces SparkRelation.__post_init__, which refuses any `database`."""
    if self.database not in formats.OTHERS:
        _check_relation(self)


_render = SparkRelation.render


def _render_with_catalog(self: SparkRelation) -> str:
    """Replaces SparkRelation.render: a table of another catalog has a name of three parts."""
    name = str(_render(self))
    has_catalog = self.database in formats.OTHERS and self.include_policy.schema
    return f"{self.database}.{name}" if has_catalog else name


def install() -> None:
    """Install the replacements."""
    SparkRelation.__post_init__ = _allow_catalog
    SparkRelation.render = _render_with_catalog
    SparkAdapter.drop_relation = _drop_unless_replaced
    SparkAdapter._get_catalog_schemas = _all_schemas
    SparkAdapter._get_columns_for_catalog = _columns_for_catalog
    SparkAdapter.list_relations_without_caching = _list_relations
    SparkAdapter.get_relation = _get_relation
    SparkAdapter.list_schemas = _list_schemas_once
    SparkAdapter._relations_cache_for_schemas = _forget_relations
    # No schema is known as a whole, also not after a table in it was renamed.
    SparkAdapter._schema_is_cached = lambda *_: False
