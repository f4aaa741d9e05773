{# The text is not like one of the SQL patterns (`any`, a weak test) or not like any (`all`). #}
{% test expect_column_values_to_not_match_like_pattern_list(
    model, column_name, like_pattern_list, match_on="any", row_condition=none
) %}
    {{ dbt_expectations.rows_where_false(
        model,
        dbt_expectations.like_condition(column_name, like_pattern_list, match_on, found=false),
        row_condition
    ) }}
{% endtest %}
