{#
    One row when the column's type, as `describe` prints it, is not one of these.

    A column that does not exist passes: add expect_column_to_exist.
#}
{%- macro column_type_is_in(model, column_name, column_type_list) -%}
{%- set wrong_types = [] -%}
{%- set expected = column_type_list | map('upper') | list -%}
{%- for column in dbt_expectations.relation_columns(model) -%}
    {%- if column.name | upper == column_name | upper and column.dtype | upper not in expected -%}
        {%- do wrong_types.append(column.dtype) -%}
    {%- endif -%}
{%- endfor %}

select '{{ wrong_types | join(', ') }}' as wrong_type
where {{ wrong_types | length }} > 0

{%- endmacro -%}
