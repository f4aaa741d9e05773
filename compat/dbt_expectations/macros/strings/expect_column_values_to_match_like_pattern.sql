{# The text is like the SQL pattern; a NULL passes. #}
{% test expect_column_values_to_match_like_pattern(
    model, column_name, like_pattern, row_condition=none
) %}
    {{ dbt_expectations.rows_where_false(
        model,
        dbt_expectations.like_condition(column_name, [like_pattern], 'all'),
        row_condition
    ) }}
{% endtest %}
