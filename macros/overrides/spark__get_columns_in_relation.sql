{#
    Replaces: dbt-spark 1.11 `spark__get_columns_in_relation`.
    Why: it returns raw `describe` rows without `.name`, so dbt's snapshots write all-NULL
    deletion rows (dbt-adapters issue 1401).
    Delete when: that issue is closed.
#}
{%- macro spark__get_columns_in_relation(relation) -%}
    {%- do return(adapter.get_columns_in_relation(relation)) -%}
{%- endmacro -%}
