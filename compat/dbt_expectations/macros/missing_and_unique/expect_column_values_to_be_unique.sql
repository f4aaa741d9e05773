{# No value occurs twice; a value counts once however often it occurs, and NULLs do not count. #}
{% test expect_column_values_to_be_unique(model, column_name, row_condition=none) %}
    {{ dbt_expectations.repeated_combinations(
        model, [column_name], 'all_values_are_missing', row_condition
    ) }}
{% endtest %}
