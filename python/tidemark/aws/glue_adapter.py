"""dbt-glue 1.12 as Tidemark needs it: a connection to Glue's sessions, for dbt-spark's macros.

Each function below replaces one named part of dbt-glue and says why, as dbt_tidemark.py does of
dbt-spark. That module calls `install` where dbt-glue is installed.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dbt.adapters.glue as glue
from botocore.exceptions import BotoCoreError, ClientError
from dbt.adapters.factory import FACTORY
from dbt.adapters.glue.gluedbapi.cursor import GlueCursor
from dbt.adapters.glue.impl import GlueAdapter
from dbt_common.clients.agate_helper import table_from_data_flat
from dbt_common.exceptions import DbtRuntimeError

from tidemark import aws

# How dbt-glue marks Python code that it sends instead of SQL.
_IS_CODE = "custom_glue_code_for_dbt_adapter"

_execute_pasted = GlueCursor.execute
_fetch_rows = GlueCursor.fetchall
_literals: list[Callable[[Any], str]] = []


def _execute(self: GlueCursor, sql: str, bindings: Sequence[Any] | None = None) -> Any:
    """Replaces GlueCursor.execute.

    dbt-glue pastes SQL between Python's triple quotes, where a backslash or a quote changes the
    statement or ends it, and it leaves out the values of seeds.
    """
    if bindings:
        sql %= tuple(_literals[0](value) for value in bindings)
    if _IS_CODE not in sql:
        sql = sql.replace("\\", "\\\\").replace("'", "\\'")
    return _execute_pasted(self, sql)


def _fetchall(self: GlueCursor) -> list[Any] | None:
    """Replaces GlueCursor.fetchall: a statement without a result has no rows, and is no error."""
    if self.result and self.result.get("results") is None:
        return []
    return _fetch_rows(self)  # type: ignore[no-any-return]


def _get_relation(
    self: GlueAdapter,
    database: str | None,
    schema: str,
    identifier: str,
    file_format: str | None = None,
) -> Any:
    """Replaces GlueAdapter.get_relation.

    dbt-glue takes any error of the Data Catalog for "there is no such table", and then replaces
    incremental tables and snapshots, history included.
    """
    _, client = self.get_connection()
    try:
        found = client.get_table(DatabaseName=schema, Name=identifier)["Table"]
    except client.exceptions.EntityNotFoundException:
        return None
    except (BotoCoreError, ClientError) as error:
        raise DbtRuntimeError(
            f"The Data Catalog does not say whether {schema}.{identifier} is there, so nothing was "
            f"written: {aws.why(error)}."
        ) from error
    return self.Relation.create(
        database=schema,
        schema=schema,
        identifier=identifier,
        type=self.relation_type_map.get(found.get("TableType")),
        is_delta=found.get("Parameters", {}).get("spark.sql.sources.provider") == "delta",
        quote_policy=self.config.quoting,
    )


def _get_columns_in_relation(self: GlueAdapter, relation: Any) -> list[Any]:
    """Replaces GlueAdapter.get_columns_in_relation.

    dbt-glue looks for temporary views in a schema first, and logs an error when none is there.
    """
    _, rows = self.execute(f"describe {relation}", fetch=True)
    columns = []
    for name, data_type, *_ in rows:
        # Partitions and details follow, behind a blank line or a title.
        if not name or name.startswith("#"):
            break
        columns.append(self.Column(column=name, dtype=data_type))
    return columns


_CATALOG = (
    *("table_database", "table_schema", "table_name", "table_type", "table_comment"),
    *("table_owner", "column_name", "column_index", "column_type", "column_comment"),
)


def _get_catalog(self: GlueAdapter, relation_configs: Any, used_schemas: Any) -> Any:
    """Replaces GlueAdapter.get_catalog.

    dbt-glue looks into one schema, which it takes for the database: dbt finds none of its tables.
    """
    rows = []
    for _, schema in sorted(used_schemas, key=str):
        for relation in self.list_relations_without_caching(self.Relation.create(schema=schema)):
            for number, column in enumerate(self.get_columns_in_relation(relation)):
                place = (None, schema, relation.identifier, relation.type, None, None)
                row = (*place, column.column, number, column.dtype, None)
                rows.append(dict(zip(_CATALOG, row, strict=True)))
    return table_from_data_flat(rows, list(_CATALOG)), []


def install(literal: Callable[[Any], str]) -> None:
    """Put the replacements in place; `literal` writes a seed's value as SQL."""
    _literals[:] = [literal]
    GlueCursor.execute = _execute
    GlueCursor.fetchall = _fetchall
    GlueAdapter.get_relation = _get_relation
    GlueAdapter.get_columns_in_relation = _get_columns_in_relation
    GlueAdapter.get_catalog = _get_catalog
    # Its macros ignore `on_schema_change`, `tblproperties` and our merge conditions: without them
    # dbt uses those of dbt-spark and ours, as on every other target.
    place = Path(__file__).parent / "dbt_glue"
    glue.Plugin.include_path = str(place)
    if glue.Plugin.project_name in FACTORY.packages:
        # dbt had read its profile before it imported us.
        FACTORY.packages[glue.Plugin.project_name] = place
