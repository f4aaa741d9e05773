{#
    Replaces: dbt-spark 1.11 `spark__create_schema`.
    Why: Spark's own catalog must create a schema: only that knows the warehouse's folder, and can
    create a new metastore. Another catalog may have the schema already, or have its own.
    Delete when: one catalog of Spark has tables of all formats.
#}
{%- macro spark__create_schema(relation) -%}
    {#- A snapshot passes the schema's name. -#}
    {%- set own = relation if relation is string else relation.incorporate(path={'database': none}) -%}
    {%- for schema in [own | string, relation | string] | unique -%}
        {%- call statement('create_schema') -%}
            create schema if not exists {{ schema }}
        {%- endcall -%}
    {%- endfor -%}
{%- endmacro -%}
