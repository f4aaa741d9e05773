{# The sum of each group lies within so many standard deviations of the groups' mean. #}
{% test expect_column_values_to_be_within_n_stdevs(
    model, column_name, group_by, sigma_threshold=3
) %}
{%- do dbt_expectations.check_list('group_by', group_by) %}

with

totals as (

    select
        {% for member in group_by %}
        {{ member }} as group_{{ loop.index }},
        {% endfor %}
        sum({{ column_name }}) as total

    from {{ model }}

    group by {{ group_by | join(', ') }}

),

spread as (

    select
        *,
        avg(total) over () as mean,
        stddev(total) over () as deviation

    from totals

)

select * from spread
where abs(total - mean) / nullif(deviation, 0) > {{ sigma_threshold }}
{% endtest %}
