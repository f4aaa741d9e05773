{# The table has none of these columns. #}
{% test expect_table_columns_to_not_contain_set(model, column_list, transform="upper") %}
{%- do dbt_expectations.check_list('column_list', column_list) -%}
{%- set actual = dbt_expectations.relation_column_names(model, transform) %}

with

actual as (

    {{ dbt_expectations.names_as_rows(actual) }}

),

listed as (

    {{ dbt_expectations.names_as_rows(column_list | map(transform) | list) }}

)

select listed.name

from listed
left semi join actual
    on listed.name = actual.name
{% endtest %}
