{#
    Replaces: dbt-spark 1.11 `spark__create_columns`.
    Why: if the key has several columns, dbt-spark's snapshot has columns dbt_unique_key_1,
    dbt_unique_key_2 ... that are only used to compare keys. It takes them for new columns of the
    source, and adds them to the table.
    Delete when: dbt-spark's snapshot leaves these columns out, as dbt-core's does.
#}
{%- macro spark__create_columns(relation, columns) -%}
    {%- set new = columns | rejectattr('name', 'in', tidemark.snapshot_key_columns()) | list -%}
    {%- if new -%}
        {%- do alter_relation_add_remove_columns(relation, new, none) -%}
    {%- endif -%}
{%- endmacro -%}
