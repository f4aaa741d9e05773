{#
    Replaces: dbt-core 1.11 `default__get_or_create_relation`, for Spark.
    Why: dbt-spark's snapshots look for their table without its catalog. The rest is dbt-core's.
    Delete when: dbt-spark's snapshots pass the model's `database`.
#}
{%- macro spark__get_or_create_relation(database, schema, identifier, type) -%}
    {%- do return(default__get_or_create_relation(database or model.get('database'), schema, identifier, type)) -%}
{%- endmacro -%}
