{# The groups whose aggregate lies outside the bounds. #}
{%- macro aggregate_between(
    model, aggregate, min_value, max_value, group_by, row_condition, strictly
) -%}
    {{ dbt_expectations.groups_where_false(
        model,
        observed=aggregate,
        condition=dbt_expectations.between_condition(aggregate, min_value, max_value, strictly),
        group_by=group_by,
        row_condition=row_condition
    ) }}
{%- endmacro -%}
