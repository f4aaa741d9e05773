{# The table has these columns in this order; a wrong place counts on either side. #}
{% test expect_table_columns_to_match_ordered_list(model, column_list, transform="upper") %}
{%- do dbt_expectations.check_list('column_list', column_list) -%}
{%- set actual = dbt_expectations.relation_column_names(model, transform) %}

with

actual as (

    {{ dbt_expectations.names_as_rows(actual) }}

),

expected as (

    {{ dbt_expectations.names_as_rows(column_list | map(transform) | list) }}

)

select
    actual.name as actual_name,
    expected.name as expected_name

from actual
full outer join expected
    on
        actual.position = expected.position
        and actual.name = expected.name

where
    actual.name is null
    or expected.name is null
{% endtest %}
