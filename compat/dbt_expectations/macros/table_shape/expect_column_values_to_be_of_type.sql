{# The column has this type, in the words of `describe`: decimal(10,2), not decimal. #}
{% test expect_column_values_to_be_of_type(model, column_name, column_type) %}
    {{ dbt_expectations.column_type_is_in(model, column_name, [column_type]) }}
{% endtest %}
