{#
    Replaces: dbt-spark 1.11 `spark__snapshot_merge_sql`.
    Why: it ends in `insert *`, which needs every column of the snapshot in the source. So
    once the source drops a column, the snapshot always fails. Here only the columns that the
    source has are inserted, and the others are NULL.
    It also skips a new version if an old version has the same dbt_scd_id: a row that was
    deleted and comes back with its old `updated_at` is lost. Here only changes are compared,
    and each new version is inserted, as in dbt-core.
    Delete when: dbt-spark's own macro uses `insert_cols`, and inserts as dbt-core's does.
#}
{%- macro spark__snapshot_merge_sql(target, source, insert_cols) -%}

{%- if tidemark.nothing_to_merge(source) -%}
    {%- do return("select 'There are no rows to merge.' as told") -%}
{%- endif -%}
{%- set columns = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() -%}
{%- set valid_to_current = config.get('dbt_valid_to_current') -%}
{%- set valid_to = 'DBT_INTERNAL_DEST.' ~ columns.dbt_valid_to -%}
{%- set key_columns = [] -%}
{%- for name in tidemark.snapshot_key_columns() -%}
    {%- do key_columns.append(adapter.quote(name)) -%}
{%- endfor -%}
{%- set inserted = insert_cols | reject('in', key_columns) | list -%}

merge into {{ target }} as DBT_INTERNAL_DEST

using {{ source }} as DBT_INTERNAL_SOURCE

on DBT_INTERNAL_SOURCE.{{ columns.dbt_scd_id }} = DBT_INTERNAL_DEST.{{ columns.dbt_scd_id }}
    and DBT_INTERNAL_SOURCE.dbt_change_type in ('update', 'delete')

when matched
    and ({{ valid_to }} is null {%- if valid_to_current %} or {{ valid_to }} = {{ valid_to_current }}{% endif %})
then update set {{ columns.dbt_valid_to }} = DBT_INTERNAL_SOURCE.{{ columns.dbt_valid_to }}

when not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert'
then insert ({{ inserted | join(', ') }})
values (DBT_INTERNAL_SOURCE.{{ inserted | join(', DBT_INTERNAL_SOURCE.') }})

{%- endmacro -%}
