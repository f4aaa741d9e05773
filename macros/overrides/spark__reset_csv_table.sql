{#
    Replaces: dbt-spark 1.11 `spark__reset_csv_table`.
    Why: it drops a seed's table at every build. A process that is killed within the drop leaves
    a folder that no catalog knows, where Delta refuses to create the table ever after; and
    the table's earlier versions are gone.
    Delete when: dbt-spark replaces a seed's Delta table.
#}
{%- macro spark__reset_csv_table(model, full_refresh, old_relation, agate_table) -%}
    {%- set is_replaced = old_relation.is_delta and config.get('file_format') == 'delta' -%}
    {%- if not is_replaced -%}
        {%- do adapter.drop_relation(old_relation) -%}
    {%- endif -%}
    {{- return(create_csv_table(model, agate_table)) -}}
{%- endmacro -%}
