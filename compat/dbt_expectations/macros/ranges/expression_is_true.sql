{#
    The expression meets the condition: for every row, or for every group if it is an aggregate.

    Example: `expression: "try_cast(amount as int) is not null"`
#}
{% test expression_is_true(
    model, expression, test_condition="= true", group_by_columns=none, row_condition=none
) %}
    {{ dbt_expectations.groups_where_false(
        model,
        observed=expression,
        condition='(' ~ expression ~ ') ' ~ test_condition,
        group_by=group_by_columns,
        row_condition=row_condition
    ) }}
{% endtest %}
