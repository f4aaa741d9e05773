{# Two tables have the same number of distinct values in a column. #}
{% test expect_column_distinct_count_to_equal_other_table(
    model,
    compare_model,
    column_name,
    compare_column_name=none,
    row_condition=none,
    compare_row_condition=none
) %}
    {{ dbt_expectations.aggregates_that_differ(
        model,
        compare_model,
        expression='count(distinct ' ~ column_name ~ ')',
        compare_expression='count(distinct ' ~ (compare_column_name or column_name) ~ ')',
        row_condition=row_condition,
        compare_row_condition=compare_row_condition
    ) }}
{% endtest %}
