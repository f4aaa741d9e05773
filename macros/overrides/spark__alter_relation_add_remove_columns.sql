{#
    Replaces: dbt-spark 1.11 `spark__alter_relation_add_remove_columns`.
    Why: it reports that Delta cannot drop columns, so `on_schema_change: sync_all_columns` fails. Delta
    can, in a table with the property `delta.columnMapping.mode: name`. Without it, Delta's own error
    names the property. Columns are added first, so that no column is missing if a statement fails.
    Delete when: dbt-spark drops columns of Delta tables (dbt-adapters issue 509).
#}
{%- macro spark__alter_relation_add_remove_columns(relation, add_columns, remove_columns) -%}
    {%- if add_columns -%}
        {%- call statement() -%}
            alter table {{ relation }} add columns (
                {%- for column in add_columns %}
                {{ column.quoted }} {{ column.data_type }}
                {%- if not loop.last %},{% endif %}
                {%- endfor %}
            )
        {%- endcall -%}
    {%- endif -%}
    {%- if remove_columns -%}
        {%- call statement() -%}
            alter table {{ relation }} drop columns ({{ remove_columns | map(attribute='quoted') | join(', ') }})
        {%- endcall -%}
    {%- endif -%}
{%- endmacro -%}
