{# Every value is greater than the one before it in the group, or by exactly `step`. #}
{% test expect_column_values_to_be_increasing(
    model,
    column_name,
    sort_column=none,
    strictly=true,
    row_condition=none,
    group_by=none,
    step=none
) %}
    {{ dbt_expectations.rows_out_of_order(
        model, column_name, sort_column, 'increasing', strictly, row_condition, group_by, step
    ) }}
{% endtest %}
