{# The sums of the columns, added up, are this; of the table or of each group. #}
{% test expect_multicolumn_sum_to_equal(
    model, column_list, sum_total, group_by=none, row_condition=none
) %}
    {%- do dbt_expectations.check_list('column_list', column_list) -%}
    {%- set total = 'sum(' ~ column_list | join(') + sum(') ~ ')' -%}
    {{ dbt_expectations.groups_where_false(
        model,
        observed=total,
        condition=total ~ ' = ' ~ sum_total,
        group_by=group_by,
        row_condition=row_condition
    ) }}
{% endtest %}
