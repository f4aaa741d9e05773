{# One row per name, with its position from 1. No rows for an empty list. #}
{%- macro names_as_rows(names) -%}
    {%- if names -%}
    select
        position,
        name
    from
        values
        {% for name in names %}
        ({{ loop.index }}, {{ dbt_expectations.text_literal('column_list', name) }})
        {{- ',' if not loop.last }}
        {% endfor %}
        as names (position, name)
    {%- else -%}
    select
        0 as position,
        '' as name
    where 1 = 0
    {%- endif -%}
{%- endmacro -%}
