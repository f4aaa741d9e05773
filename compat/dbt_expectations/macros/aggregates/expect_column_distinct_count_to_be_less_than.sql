{# The number of distinct values is less than this; NULL is not a value. #}
{% test expect_column_distinct_count_to_be_less_than(
    model, column_name, value, group_by=none, row_condition=none
) %}
    {%- set distinct_count = 'count(distinct ' ~ column_name ~ ')' -%}
    {{ dbt_expectations.groups_where_false(
        model,
        observed=distinct_count,
        condition=distinct_count ~ ' < ' ~ value,
        group_by=group_by,
        row_condition=row_condition
    ) }}
{% endtest %}
