{# Every row's pair of values is one of these pairs; a NULL is in none. #}
{% test expect_column_pair_values_to_be_in_set(
    model, column_A, column_B, value_pairs_set, row_condition=none
) %}
{%- do dbt_expectations.check_list('value_pairs_set', value_pairs_set) -%}
{%- for pair in value_pairs_set -%}
    {%- do dbt_expectations.check_list('value_pairs_set', pair) -%}
    {%- if pair | length != 2 or pair[0] is not number or pair[1] is not number -%}
        {%- do exceptions.raise_compiler_error(
            "dbt_expectations: `value_pairs_set` must hold pairs of numbers in the stand-in, "
            ~ "e.g. [[1, 10], [2, 20]]. Got: " ~ pair
        ) -%}
    {%- endif -%}
{%- endfor %}

with

pairs as (

    select
        member_a,
        member_b
    from
        values
        {% for pair in value_pairs_set %}
        ({{ pair[0] }}, {{ pair[1] }})
        {{- ',' if not loop.last }}
        {% endfor %}
        as pairs (member_a, member_b)

),

checked as (

    select
        {{ column_A }} as value_a,
        {{ column_B }} as value_b

    from {{ model }}

    {% if row_condition %}
    where {{ row_condition }}
    {% endif %}

)

select
    checked.value_a,
    checked.value_b

from checked
left anti join pairs
    on
        checked.value_a = pairs.member_a
        and checked.value_b = pairs.member_b
{% endtest %}
