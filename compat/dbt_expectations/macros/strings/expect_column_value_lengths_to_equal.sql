{# Every text has this many characters; a NULL passes. #}
{% test expect_column_value_lengths_to_equal(model, column_name, value, row_condition=none) %}
    {{ dbt_expectations.rows_where_false(
        model, 'length(' ~ column_name ~ ') = ' ~ value, row_condition
    ) }}
{% endtest %}
