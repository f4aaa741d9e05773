{#
    Replaces: dbt-core `generate_schema_name`.
    Why: a layer's folder sets its schema (`current`, `history`, `marts`). If a developer's
    profile has its own schema, it becomes a prefix.
    Delete when: dbt's own macro can leave the profile's schema out of the name.
#}
{%- macro generate_schema_name(custom_schema_name, node) -%}
    {%- if custom_schema_name is none -%}
        {{ target.schema }}
    {%- elif target.schema == 'default' -%}
        {{ custom_schema_name | trim }}
    {%- else -%}
        {{ target.schema }}_{{ custom_schema_name | trim }}
    {%- endif -%}
{%- endmacro -%}
