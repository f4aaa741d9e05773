{#
    The groups (without `group_by`: the tables) whose aggregates differ in two tables.

    A missing side and a NULL aggregate count as 0. Keys are paired by position and compared with
    `=`, so a NULL key has no partner: it is reported once from either side. What is not said about
    the other table is as said about this one.
#}
{%- macro aggregates_that_differ(
    model,
    compare_model,
    expression,
    compare_expression,
    group_by=none,
    compare_group_by=none,
    row_condition=none,
    compare_row_condition=none,
    tolerance=0.0,
    tolerance_percent=none
) -%}

{%- if group_by -%}
    {%- do dbt_expectations.check_list('group_by', group_by) -%}
{%- endif -%}
{%- if compare_group_by -%}
    {%- do dbt_expectations.check_list('compare_group_by', compare_group_by) -%}
{%- endif -%}
{#- Without groups a constant key joins the two single rows. -#}
{%- set keys = group_by or ['1'] -%}
{%- set compare_keys = compare_group_by or keys -%}
{%- set compare_condition = compare_row_condition or row_condition -%}
{%- if keys | length != compare_keys | length -%}
    {%- do exceptions.raise_compiler_error(
        "dbt_expectations: `group_by` and `compare_group_by` must have the same length. Got: "
        ~ keys ~ " and " ~ compare_keys
    ) -%}
{%- endif %}

with

this_side as (

    select
        {% for key in keys %}
        {{ key }} as key_{{ loop.index }},
        {% endfor %}
        {{ expression }} as amount

    from {{ model }}

    {% if row_condition %}
    where {{ row_condition }}
    {% endif %}

    {% if group_by %}
    group by {{ group_by | join(', ') }}
    {% endif %}

),

other_side as (

    select
        {% for key in compare_keys %}
        {{ key }} as key_{{ loop.index }},
        {% endfor %}
        {{ compare_expression }} as amount

    from {{ compare_model }}

    {% if compare_condition %}
    where {{ compare_condition }}
    {% endif %}

    {% if compare_group_by or group_by %}
    group by {{ compare_keys | join(', ') }}
    {% endif %}

),

paired as (

    select
        {% for key in keys %}
        this_side.key_{{ loop.index }} as this_key_{{ loop.index }},
        other_side.key_{{ loop.index }} as other_key_{{ loop.index }},
        {% endfor %}
        coalesce(this_side.amount, 0) as this_amount,
        coalesce(other_side.amount, 0) as other_amount

    from this_side
    full outer join other_side
        on
            {% for key in keys %}
            {{ 'and' if not loop.first }}
            this_side.key_{{ loop.index }} = other_side.key_{{ loop.index }}
            {% endfor %}

)

select * from paired
where
    {% if tolerance_percent %}
    {# Divided by the signed amount, as measured: a negative amount passes, and so does 0. #}
    abs(this_amount - other_amount) / nullif(this_amount, 0) > {{ tolerance_percent }}
    {% else %}
    abs(this_amount - other_amount) > {{ tolerance }}
    {% endif %}

{%- endmacro -%}
