{#
    No two values differ only in upper and lower case.

    A NULL in the column fails too, as in the hub package: it is a value, but not a text.
#}
{% test expect_column_values_to_have_consistent_casing(
    model, column_name, display_inconsistent_columns=false
) %}
{%- do dbt_expectations.check_choice(
    'display_inconsistent_columns', display_inconsistent_columns, [false]
) %}

with

texts as (

    select distinct {{ column_name }} as text

    from {{ model }}

),

counted as (

    select
        count(*) as number_of_texts,
        count(distinct lower(text)) as number_of_lower_texts

    from texts

)

select * from counted
where number_of_texts != number_of_lower_texts
{% endtest %}
