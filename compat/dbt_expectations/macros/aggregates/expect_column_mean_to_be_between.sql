{# The mean, of the table or of each group, lies between the bounds. #}
{% test expect_column_mean_to_be_between(
    model,
    column_name,
    min_value=none,
    max_value=none,
    group_by=none,
    row_condition=none,
    strictly=false
) %}
    {%- set aggregate = 'avg(' ~ column_name ~ ')' -%}
    {{ dbt_expectations.aggregate_between(
        model, aggregate, min_value, max_value, group_by, row_condition, strictly
    ) }}
{% endtest %}
