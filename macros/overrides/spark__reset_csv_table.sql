{#
    Replaces: dbt-spark 1.11 `spark__reset_csv_table`.
    Why: it drops a seed's table at every build. If the process is killed during the drop, it leaves a
    folder that is in no catalog, and Delta always refuses to create the table there. The drop also
    loses the table's earlier versions.
    Delete when: dbt-spark replaces a seed's table.
#}
{%- macro spark__reset_csv_table(model, full_refresh, old_relation, agate_table) -%}
    {%- set name = config.get('file_format') -%}
    {%- set is_replaced = old_relation['is_' ~ name] and tidemark.table_format(name).replaces -%}
    {%- if not is_replaced -%}
        {%- do adapter.drop_relation(old_relation) -%}
    {%- endif -%}
    {{- return(create_csv_table(model, agate_table)) -}}
{%- endmacro -%}
