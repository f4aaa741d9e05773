{# The regex is found in the text, anywhere in it; a NULL passes. #}
{% test expect_column_values_to_match_regex(
    model, column_name, regex, row_condition=none, is_raw=false, flags=""
) %}
    {{ dbt_expectations.rows_where_false(
        model,
        dbt_expectations.regex_condition(column_name, [regex], 'all', is_raw, flags),
        row_condition
    ) }}
{% endtest %}
