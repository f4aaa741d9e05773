{#
    Replaces: dbt-spark 1.11 `spark__create_schema`.
    Why: all catalogs share the metastore, and Spark's own must create a schema: only that knows the
    warehouse's folder, and can create a new metastore.
    Delete when: one catalog of Spark has tables of all formats.
#}
{%- macro spark__create_schema(relation) -%}
    {%- call statement('create_schema') -%}
        {#- A snapshot passes the schema's name. -#}
        create schema if not exists {{ relation if relation is string else relation.incorporate(path={'database': none}) }}
    {%- endcall -%}
{%- endmacro -%}
