{# One of the regexes (`any`) or each of them (`all`) is found in the text. #}
{% test expect_column_values_to_match_regex_list(
    model,
    column_name,
    regex_list,
    match_on="any",
    row_condition=none,
    is_raw=false,
    flags=""
) %}
    {{ dbt_expectations.rows_where_false(
        model,
        dbt_expectations.regex_condition(column_name, regex_list, match_on, is_raw, flags),
        row_condition
    ) }}
{% endtest %}
