{# Instead of dbt's own, by the order in `dispatch`. #}
{% macro spark__concat(fields) -%}
    concat_ws('-', {{ fields | join(', ') }})
{%- endmacro %}
