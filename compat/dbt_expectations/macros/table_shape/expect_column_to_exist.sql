{# The table has the column, at this place (from 1) if one is given. #}
{% test expect_column_to_exist(model, column_name, column_index=none, transform="upper") %}
{%- set actual = dbt_expectations.relation_column_names(model, transform) -%}
{%- set expected = [column_name] | map(transform) | first %}

with

actual as (

    {{ dbt_expectations.names_as_rows(actual) }}

),

found as (

    select count(*) as number_of_columns

    from actual

    where
        name = {{ dbt_expectations.text_literal('column_name', expected) }}
        {% if column_index is not none %}
        and position = {{ column_index }}
        {% endif %}

)

select * from found
where number_of_columns = 0
{% endtest %}
