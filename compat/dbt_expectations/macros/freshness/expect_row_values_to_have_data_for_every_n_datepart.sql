{#
    There is a row for every day from the first to the last.

    The last day itself is not checked. A table with no day to check fails here; the hub package
    stops with an error.
#}
{% test expect_row_values_to_have_data_for_every_n_datepart(
    model, date_col, date_part="day", row_condition=none
) %}
{%- do dbt_expectations.check_choice('date_part', date_part, ['day']) %}

with

seen as (

    select distinct cast({{ date_col }} as date) as seen_on

    from {{ model }}

    {% if row_condition %}
    where {{ row_condition }}
    {% endif %}

),

period as (

    select
        min(seen_on) as first_day,
        max(seen_on) as last_day

    from seen

),

expected as (

    select explode(sequence(first_day, date_sub(last_day, 1))) as expected_on

    from period

    where first_day < last_day

)

select expected.expected_on

from expected
left anti join seen
    on expected.expected_on = seen.seen_on

union all

select first_day

from period

where coalesce(first_day = last_day, true)
{% endtest %}
