{# The table has this many columns. #}
{% test expect_table_column_count_to_equal(model, value) %}
    {{ dbt_expectations.column_count_is(model, 'number_of_columns = ' ~ value) }}
{% endtest %}
