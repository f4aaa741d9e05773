{# Every value lies between the bounds; a NULL passes. #}
{% test expect_column_values_to_be_between(
    model, column_name, min_value=none, max_value=none, row_condition=none, strictly=false
) %}
    {{ dbt_expectations.rows_where_false(
        model,
        dbt_expectations.between_condition(column_name, min_value, max_value, strictly),
        row_condition
    ) }}
{% endtest %}
