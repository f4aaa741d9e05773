{# Two tables have the same number of rows, in total or per group; the other's times `factor`. #}
{% test expect_table_row_count_to_equal_other_table(
    model,
    compare_model,
    group_by=none,
    compare_group_by=none,
    factor=1,
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
