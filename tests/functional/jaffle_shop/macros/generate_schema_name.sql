{% macro generate_schema_name(custom_schema_name, node) -%}
    {{ target.schema if custom_schema_name is none else target.schema ~ '_' ~ custom_schema_name | trim }}
{%- endmacro %}
