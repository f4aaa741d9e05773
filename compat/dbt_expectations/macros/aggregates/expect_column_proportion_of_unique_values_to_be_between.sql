{# Distinct values per value lie between the bounds; 1 where there is no value at all. #}
{% test expect_column_proportion_of_unique_values_to_be_between(
    model,
    column_name,
    min_value=none,
    max_value=none,
    group_by=none,
    row_condition=none,
    strictly=false
) %}
    {%- set aggregate -%}
    coalesce(count(distinct {{ column_name }}) / nullif(count({{ column_name }}), 0), 1)
    {%- endset -%}
    {{ dbt_expectations.aggregate_between(
        model, aggregate, min_value, max_value, group_by, row_condition, strictly
    ) }}
{% endtest %}
