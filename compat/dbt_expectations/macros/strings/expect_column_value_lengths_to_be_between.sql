{# Every text's number of characters lies between the bounds; a NULL passes. #}
{% test expect_column_value_lengths_to_be_between(
    model, column_name, min_value=none, max_value=none, row_condition=none, strictly=false
) %}
    {%- set length = 'length(' ~ column_name ~ ')' -%}
    {{ dbt_expectations.rows_where_false(
        model,
        dbt_expectations.between_condition(length, min_value, max_value, strictly),
        row_condition
    ) }}
{% endtest %}
