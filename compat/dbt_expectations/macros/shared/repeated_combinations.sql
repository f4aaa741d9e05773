{#
    The combinations of values that occur more than once; NULLs are equal to each other here.

    Rows with NULLs in all columns (or, with `any_value_is_missing`, in any) are left out.
#}
{%- macro repeated_combinations(model, column_list, ignore_row_if, row_condition) -%}
{%- set missing = [] -%}
{%- for column in column_list -%}
    {%- do missing.append(column ~ ' is null') -%}
{%- endfor -%}
{%- set connective = ' and ' if ignore_row_if == 'all_values_are_missing' else ' or ' %}

select
    {% for column in column_list %}
    {{ column }} as column_{{ loop.index }},
    {% endfor %}
    count(*) as number_of_rows

from {{ model }}

where
    not ({{ missing | join(connective) }})
    {% if row_condition %}
    and ({{ row_condition }})
    {% endif %}

group by {{ column_list | join(', ') }}

having count(*) > 1

{%- endmacro -%}
