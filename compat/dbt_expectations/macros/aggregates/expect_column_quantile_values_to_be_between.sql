{# The quantile (0 to 1), of the table or of each group, lies between the bounds. #}
{% test expect_column_quantile_values_to_be_between(
    model,
    column_name,
    quantile,
    min_value=none,
    max_value=none,
    group_by=none,
    row_condition=none,
    strictly=false
) %}
    {%- set aggregate = dbt_expectations.quantile(column_name, quantile) -%}
    {{ dbt_expectations.aggregate_between(
        model, aggregate, min_value, max_value, group_by, row_condition, strictly
    ) }}
{% endtest %}
