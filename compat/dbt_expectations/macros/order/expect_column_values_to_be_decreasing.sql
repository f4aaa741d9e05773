{# Every value is less than the one before it in the group, or by exactly `step`. #}
{% test expect_column_values_to_be_decreasing(
    model,
    column_name,
    sort_column=none,
    strictly=true,
    row_condition=none,
    group_by=none,
    step=none
) %}
    {{ dbt_expectations.rows_out_of_order(
        model, column_name, sort_column, 'decreasing', strictly, row_condition, group_by, step
    ) }}
{% endtest %}
