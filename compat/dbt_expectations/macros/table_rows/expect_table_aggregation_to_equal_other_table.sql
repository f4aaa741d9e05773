{#
    An aggregate is the same in two tables, in total or per group.

    `tolerance_percent` is a fraction and replaces `tolerance`. Use it for positive amounts only:
    a negative one always passes.
#}
{% test expect_table_aggregation_to_equal_other_table(
    model,
    expression,
    compare_model,
    compare_expression=none,
    group_by=none,
    compare_group_by=none,
    row_condition=none,
    compare_row_condition=none,
    tolerance=0.0,
    tolerance_percent=none
) %}
    {{ dbt_expectations.aggregates_that_differ(
        model,
        compare_model,
        expression=expression,
        compare_expression=compare_expression or expression,
        group_by=group_by,
        compare_group_by=compare_group_by,
        row_condition=row_condition,
        compare_row_condition=compare_row_condition,
        tolerance=tolerance,
        tolerance_percent=tolerance_percent
    ) }}
{% endtest %}
