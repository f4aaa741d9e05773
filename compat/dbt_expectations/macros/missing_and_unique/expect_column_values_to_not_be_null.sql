{# No row has a NULL here. #}
{% test expect_column_values_to_not_be_null(model, column_name, row_condition=none) %}
    {{ dbt_expectations.rows_where_false(model, column_name ~ ' is not null', row_condition) }}
{% endtest %}
