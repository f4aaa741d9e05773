{# One of the regexes (`any`, a weak test) or each of them (`all`) is not found in the text. #}
{% test expect_column_values_to_not_match_regex_list(
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
        dbt_expectations.regex_condition(
            column_name, regex_list, match_on, is_raw, flags, found=false
        ),
        row_condition
    ) }}
{% endtest %}
