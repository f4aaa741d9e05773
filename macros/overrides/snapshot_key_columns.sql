{#
    Helper of: `spark__create_columns`, `spark__snapshot_merge_sql`.
    The columns that dbt-core adds to a snapshot's changes if the key has several columns. They are not
    columns of the snapshot itself.
#}
{%- macro snapshot_key_columns() -%}
    {%- set names = [] -%}
    {%- set key = config.get('unique_key') -%}
    {%- for _ in (key if key is not string else []) -%}
        {%- do names.append('dbt_unique_key_' ~ loop.index) -%}
    {%- endfor -%}
    {%- do return(names) -%}
{%- endmacro -%}
