{# Two tables have the same number of columns. #}
{% test expect_table_column_count_to_equal_other_table(model, compare_model) %}
    {%- set value = dbt_expectations.relation_columns(compare_model) | length -%}
    {{ dbt_expectations.column_count_is(model, 'number_of_columns = ' ~ value) }}
{% endtest %}
