{# The column's distinct values are the set: none missing, none more, a NULL included. #}
{% test expect_column_distinct_values_to_equal_set(
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

select
    'not in the set' as finding,
    cast(checked.checked_value as string) as finding_value

from checked
left anti join members
    on checked.checked_value = members.member

union all

select distinct
    'not in the column' as finding,
    cast(members.member as string) as finding_value

from members
left anti join checked
    on members.member = checked.checked_value
{% endtest %}
