{#
    The groups (without `group_by`: the table) for which the condition is false.

    Without a group an aggregate has one row, also on an empty table; with one, an empty table has
    no groups and passes. A NULL condition passes.

    Arguments
        observed: the expression that is tested, shown beside the verdict
        condition: a boolean expression
#}
{%- macro groups_where_false(model, observed, condition, group_by=none, row_condition=none) -%}

{%- if group_by -%}
    {%- do dbt_expectations.check_list('group_by', group_by) -%}
{%- endif %}

with

checked as (

    select
        {% for member in group_by or [] %}
        {{ member }} as group_{{ loop.index }},
        {% endfor %}
        {{ observed }} as observed,
        {{ condition }} as is_as_expected

    from {{ model }}

    {% if row_condition %}
    where {{ row_condition }}
    {% endif %}

    {% if group_by %}
    group by {{ group_by | join(', ') }}
    {% endif %}

)

select * from checked
where not is_as_expected

{%- endmacro -%}
