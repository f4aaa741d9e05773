{# Every member of the set occurs in the column. #}
{% test expect_column_distinct_values_to_contain_set(
    model, column_name, value_set, quote_values=true, row_condition=none
) %}

with

members as (

    {{ dbt_expectations.set_members(value_set, quote_values) }}

),

checked as (

    select distinct {{ column_name }} as checked_value

    from {{ model }}

    {% if row_condition %}
    where {{ row_condition }}
    {% endif %}

)

select distinct members.member

from members
left anti join checked
    on members.member = checked.checked_value
{% endtest %}
