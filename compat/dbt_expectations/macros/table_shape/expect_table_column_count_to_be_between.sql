{# The number of columns lies between the bounds. #}
{% test expect_table_column_count_to_be_between(
    model, min_value=none, max_value=none, strictly=false
) %}
    {%- if min_value == 0 or max_value == 0 -%}
        {%- do exceptions.raise_compiler_error(
            "dbt_expectations: the hub package ignores a column count of 0; leave the bound out."
        ) -%}
    {%- endif -%}
    {{ dbt_expectations.column_count_is(
        model,
        dbt_expectations.between_condition('number_of_columns', min_value, max_value, strictly)
    ) }}
{% endtest %}
