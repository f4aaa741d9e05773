{# A equals B in every row; a NULL passes. #}
{% test expect_column_pair_values_to_be_equal(model, column_A, column_B, row_condition=none) %}
    {{ dbt_expectations.rows_where_false(model, column_A ~ ' = ' ~ column_B, row_condition) }}
{% endtest %}
