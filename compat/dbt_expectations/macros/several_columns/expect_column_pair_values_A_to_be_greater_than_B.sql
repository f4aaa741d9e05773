{# A is greater than B in every row, or equal to it with `or_equal`; a NULL passes. #}
{% test expect_column_pair_values_A_to_be_greater_than_B(
    model, column_A, column_B, or_equal=false, row_condition=none
) %}
    {%- set operator = ' >= ' if or_equal else ' > ' -%}
    {{ dbt_expectations.rows_where_false(model, column_A ~ operator ~ column_B, row_condition) }}
{% endtest %}
