{#
    The most common value is in the set; a NULL is not.

    Unquoted members and values are compared as `data_type`. Spark's `decimal` has no fraction, so
    give `data_type: double` for fractions.
#}
{% test expect_column_most_common_value_to_be_in_set(
    model,
    column_name,
    value_set,
    top_n,
    quote_values=true,
    data_type="decimal",
    row_condition=none
) %}
{%- do dbt_expectations.check_choice('top_n', top_n, [1]) -%}
{%- set compared_type = 'string' if quote_values else data_type %}

with

members as (

    {{ dbt_expectations.set_members(value_set, quote_values) }}

),

counted as (

    select
        cast({{ column_name }} as {{ compared_type }}) as checked_value,
        count(*) as number_of_rows

    from {{ model }}

    {% if row_condition %}
    where {{ row_condition }}
    {% endif %}

    group by 1

),

most_common as (

    select checked_value

    from counted

    order by
        number_of_rows desc,
        checked_value asc

    limit 1

)

select most_common.checked_value

from most_common
left anti join members
    on most_common.checked_value = cast(members.member as {{ compared_type }})
{% endtest %}
