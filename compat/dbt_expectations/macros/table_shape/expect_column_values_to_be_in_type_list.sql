{# The column has one of these types, in the words of `describe`. #}
{% test expect_column_values_to_be_in_type_list(model, column_name, column_type_list) %}
    {%- do dbt_expectations.check_list('column_type_list', column_type_list) -%}
    {{ dbt_expectations.column_type_is_in(model, column_name, column_type_list) }}
{% endtest %}
