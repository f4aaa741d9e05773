{# The rows for which the condition is false. True passes, and so does NULL. #}
{%- macro rows_where_false(model, condition, row_condition=none) -%}

with

checked as (

    select
        *,
        {{ condition }} as is_as_expected

    from {{ model }}

    {% if row_condition %}
    where {{ row_condition }}
    {% endif %}

)

select * from checked
where not is_as_expected

{%- endmacro -%}
