{# The rows that do not follow on the row before them; a first row and a NULL neighbour pass. #}
{%- macro rows_out_of_order(
    model, column_name, sort_column, direction, strictly, row_condition, group_by, step
) -%}

{%- if group_by -%}
    {%- do dbt_expectations.check_list('group_by', group_by) -%}
{%- endif -%}
{%- set operator = '>' if direction == 'increasing' else '<' -%}
{%- if not strictly -%}
    {%- set operator = operator ~ '=' -%}
{%- endif %}

with

compared as (

    select
        {{ column_name }} as this_value,
        lag({{ column_name }}) over (
            {% if group_by %}
            partition by {{ group_by | join(', ') }}
            {% endif %}
            order by {{ sort_column or column_name }}
        ) as previous_value

    from {{ model }}

    {% if row_condition %}
    where {{ row_condition }}
    {% endif %}

)

select * from compared
where
    {% if step is none %}
    not (this_value {{ operator }} previous_value)
    {% elif direction == 'increasing' %}
    this_value - previous_value != {{ step }}
    {% else %}
    previous_value - this_value != {{ step }}
    {% endif %}

{%- endmacro -%}
