{# The names of a model's columns after the Jinja filter `transform`. #}
{%- macro relation_column_names(model, transform) -%}
    {%- set columns = dbt_expectations.relation_columns(model) -%}
    {{ return(columns | map(attribute='name') | map(transform) | list) }}
{%- endmacro -%}
