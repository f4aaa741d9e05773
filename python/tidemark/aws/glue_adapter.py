"""Patches dbt-glue 1.12: it connects to Glue's sessions, and dbt-spark's macros write the SQL.

Each function below replaces one named part of dbt-glue and gives the reason. dbt_tidemark.py calls
`install` if dbt-glue is installed.
"""

from collections.abc import Sequence
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
from tidemark.dbt_plugin import sessions

# dbt-glue's marker for Python code that it sends instead of SQL.
_IS_CODE = "custom_glue_code_for_dbt_adapter"

_execute_pasted = GlueCursor.execute
_fetch_rows = GlueCursor.fetchall


def _execute(self: GlueCursor, sql: str, bindings: Sequence[Any] | None = None) -> Any:
    """Replaces GlueCursor.execute.

    dbt-glue inserts SQL into a Python string without escaping backslashes and quotes, and does not
    bind the values of seeds.
    """
    if bindings:
        sql %= tuple(sessions.literal(type(self), value) for value in bindings)
    if _IS_CODE not in sql:
        sql = sql.replace("\\", "\\\\").replace("'", "\\'")
    return _execute_pasted(self, sql)


def _fetchall(self: GlueCursor) -> list[Any] | None:
    """Replaces GlueCursor.fetchall, which fails if a statement has no result."""
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

    dbt-glue treats any error of the Data Catalog as "the table does not exist", and then replaces
    incremental tables and snapshots, with their history.
    """
    _, client = self.get_connection()
    try:
        found = client.get_table(DatabaseName=schema, Name=identifier)["Table"]
    except client.exceptions.EntityNotFoundException:
        return None
    except (BotoCoreError, ClientError) as error:
        raise DbtRuntimeError(
            f"The Data Catalog could not look up {schema}.{identifier}, so nothing was written: "
            f"{aws.why(error)}."
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

    dbt-glue first looks for temporary views in a schema, and logs an error if there are none.
    """
    _, rows = self.execute(f"describe {relation}", fetch=True)
    columns = []
    for name, data_type, *_ in rows:
        # Partitions and details follow after a blank line or a title.
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

    dbt-glue looks only into one schema, which it uses as the database, so dbt finds no tables.
    """
    rows = []
    for _, schema in sorted(used_schemas, key=str):
        for relation in self.list_relations_without_caching(self.Relation.create(schema=schema)):
            for number, column in enumerate(self.get_columns_in_relation(relation)):
                place = (None, schema, relation.identifier, relation.type, None, None)
                row = (*place, column.column, number, column.dtype, None)
                rows.append(dict(zip(_CATALOG, row, strict=True)))
    return table_from_data_flat(rows, list(_CATALOG)), []


def install() -> None:
    """Install the replacements."""
    GlueCursor.execute = _execute
    GlueCursor.fetchall = _fetchall
    GlueAdapter.get_relation = _get_relation
    GlueAdapter.get_columns_in_relation = _get_columns_in_relation
    GlueAdapter.get_catalog = _get_catalog
    # dbt-glue's macros ignore `on_schema_change`, `tblproperties` and Tidemark's merge conditions.
    # Without them, dbt uses the macros of dbt-spark and Tidemark, as on every other target.
    place = Path(__file__).parent / "dbt_glue"
    glue.Plugin.include_path = str(place)
    if glue.Plugin.project_name in FACTORY.packages:
        # dbt has already registered dbt-glue's own folder.
        FACTORY.packages[glue.Plugin.project_name] = place
