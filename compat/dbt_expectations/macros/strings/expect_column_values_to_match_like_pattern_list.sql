{# The text is like one of the SQL patterns (`any`) or like each of them (`all`). #}
{% test expect_column_values_to_match_like_pattern_list(
    model, column_name, like_pattern_list, match_on="any", row_condition=none
) %}
    {{ dbt_expectations.rows_where_false(
        model,
        dbt_expectations.like_condition(column_name, like_pattern_list, match_on),
        row_condition
    ) }}
{% endtest %}
