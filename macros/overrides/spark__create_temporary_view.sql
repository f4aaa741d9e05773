{#
    Replaces: dbt-spark 1.11 `spark__create_temporary_view`.
    Why: an incremental model creates a view of its rows, to learn their columns. Spark then analyzes the
    model's SQL twice: half a second for a small history. Where the columns are known, the merge has the
    SQL itself (`noted_columns`).
    Delete when: dbt-spark merges without the view.
#}
{%- macro spark__create_temporary_view(relation, compiled_code) -%}
    {%- if tidemark.noted_columns() -%}
    select 'The merge has the rows.' as told
    {%- else -%}
    create or replace temporary view {{ relation }} as
    {{ compiled_code }}
    {%- endif -%}
{%- endmacro -%}
