{#
    The newest row that is not in the future is recent.

    A table without such a row fails: its newest time counts as 1970.
#}
{% test expect_row_values_to_have_recent_data(
    model, column_name, datepart, interval, row_condition=none
) %}

with

past as (

    select cast({{ column_name }} as timestamp) as happened_at

    from {{ model }}

    where
        cast({{ column_name }} as timestamp) <= current_timestamp()
        {% if row_condition %}
        and ({{ row_condition }})
        {% endif %}

),

newest as (

    select coalesce(max(happened_at), timestamp'1970-01-01 00:00:00') as newest_at

    from past

)

select * from newest
where newest_at < {{ dbt_expectations.freshness_limit(datepart, interval) }}
{% endtest %}
