{#
    Replaces: dbt-core 1.11 `default__process_schema_changes`, for Spark.
    Why: it compares the columns of a view with the table's. Without the view, the model has done so
    (`noted_columns`). The rest is dbt-core's.
    Delete when: dbt-spark merges without the view.
#}
{%- macro spark__process_schema_changes(on_schema_change, source_relation, target_relation) -%}
    {%- if tidemark.noted_columns() -%}{%- do return({}) -%}{%- endif -%}
    {%- do return(default__process_schema_changes(on_schema_change, source_relation, target_relation)) -%}
{%- endmacro -%}
