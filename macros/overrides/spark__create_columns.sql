{#
    Replaces: dbt-spark 1.11 `spark__create_columns`.
    Why: its snapshot takes dbt_unique_key_1, dbt_unique_key_2 ... of a key of several columns, which
    are for the comparison only, for new columns of the source, and adds them to the table.
    Delete when: dbt-spark's snapshot leaves these columns out, as dbt-core's does.
#}
{%- macro spark__create_columns(relation, columns) -%}
    {%- set new = columns | rejectattr('name', 'in', snapshot_key_columns()) | list -%}
    {%- if new -%}
        {%- call statement() -%}
            alter table {{ relation }} add columns (
                {%- for column in new %}
                {{ column.quoted }} {{ column.data_type }}
                {%- if not loop.last %},{% endif %}
                {%- endfor %}
            )
        {%- endcall -%}
    {%- endif -%}
{%- endmacro -%}
