{# This table has `factor` times as many rows as the other, in total or per group. #}
{% test expect_table_row_count_to_equal_other_table_times_factor(
    model,
    compare_model,
    factor,
    group_by=none,
    compare_group_by=none,
    row_condition=none,
    compare_row_condition=none
) %}
    {{ dbt_expectations.aggregates_that_differ(
        model,
        compare_model,
        expression='count(*)',
        compare_expression='count(*) * ' ~ factor,
        group_by=group_by,
        compare_group_by=compare_group_by,
        row_condition=row_condition,
        compare_row_condition=compare_row_condition
    ) }}
{% endtest %}
