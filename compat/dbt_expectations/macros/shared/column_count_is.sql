{# One row when the number of columns does not meet the condition on `number_of_columns`. #}
{%- macro column_count_is(model, condition) -%}

with

counted as (

    select {{ dbt_expectations.relation_columns(model) | length }} as number_of_columns

)

select * from counted
where not ({{ condition }})

{%- endmacro -%}
