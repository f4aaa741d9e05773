{# The number of rows, of the table or of each group, lies between the bounds. #}
{% test expect_table_row_count_to_be_between(
    model, min_value=none, max_value=none, group_by=none, row_condition=none, strictly=false
) %}
    {{ dbt_expectations.aggregate_between(
        model, 'count(*)', min_value, max_value, group_by, row_condition, strictly
    ) }}
{% endtest %}
