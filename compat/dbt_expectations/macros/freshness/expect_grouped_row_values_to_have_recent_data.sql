{#
    Each group's newest row that is not in the future is recent.

    Groups without such a row, and groups with a NULL in their key, are not reported.
#}
{% test expect_grouped_row_values_to_have_recent_data(
    model, group_by, timestamp_column, datepart, interval, row_condition=none
) %}
{%- do dbt_expectations.check_list('group_by', group_by) %}

with

newest as (

    select
        {% for member in group_by %}
        {{ member }} as group_{{ loop.index }},
        {% endfor %}
        max(cast({{ timestamp_column }} as timestamp)) as newest_at

    from {{ model }}

    where
        cast({{ timestamp_column }} as timestamp) <= current_timestamp()
        {% for member in group_by %}
        and {{ member }} is not null
        {% endfor %}
        {% if row_condition %}
        and ({{ row_condition }})
        {% endif %}

    group by {{ group_by | join(', ') }}

)

select * from newest
where newest_at < {{ dbt_expectations.freshness_limit(datepart, interval) }}
{% endtest %}
