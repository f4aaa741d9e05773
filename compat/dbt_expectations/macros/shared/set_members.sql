{# One row per member of a set, in the column `member`: as texts, or as the SQL that they are. #}
{%- macro set_members(value_set, quote_values) -%}
    {%- do dbt_expectations.check_list('value_set', value_set) -%}
    select member
    from
        values
        {% for value in value_set %}
        ({{ dbt_expectations.text_literal('value_set', value) if quote_values else value }})
        {{- ',' if not loop.last }}
        {% endfor %}
        as members (member)
{%- endmacro -%}
