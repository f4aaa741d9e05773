{# No combination of these columns occurs twice. #}
{% test expect_compound_columns_to_be_unique(
    model,
    column_list,
    quote_columns=false,
    ignore_row_if="all_values_are_missing",
    row_condition=none
) %}
    {%- do dbt_expectations.check_list('column_list', column_list) -%}
    {%- do dbt_expectations.check_choice('quote_columns', quote_columns, [true, false]) -%}
    {%- do dbt_expectations.check_choice(
        'ignore_row_if', ignore_row_if, ['all_values_are_missing', 'any_value_is_missing']
    ) -%}
    {%- set columns = [] -%}
    {%- for column in column_list -%}
        {%- do columns.append(adapter.quote(column) if quote_columns else column) -%}
    {%- endfor -%}
    {{ dbt_expectations.repeated_combinations(model, columns, ignore_row_if, row_condition) }}
{% endtest %}
