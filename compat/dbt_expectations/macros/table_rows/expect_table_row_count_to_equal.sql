{# The table, or each group, has this many rows. #}
{% test expect_table_row_count_to_equal(model, value, group_by=none, row_condition=none) %}
    {{ dbt_expectations.groups_where_false(
        model,
        observed='count(*)',
        condition='count(*) = ' ~ value,
        group_by=group_by,
        row_condition=row_condition
    ) }}
{% endtest %}
