{# Every row's value is in the set; a NULL is not. #}
{% test expect_column_values_to_be_in_set(
    model, column_name, value_set, quote_values=true, row_condition=none
) %}

with

members as (

    {{ dbt_expectations.set_members(value_set, quote_values) }}

),

checked as (

    select {{ column_name }} as checked_value

    from {{ model }}

    {% if row_condition %}
    where {{ row_condition }}
    {% endif %}

)

select checked.checked_value

from checked
left anti join members
    on checked.checked_value = members.member
{% endtest %}
