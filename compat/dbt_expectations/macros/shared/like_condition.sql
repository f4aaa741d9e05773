{# A boolean expression: the column is like one of (`any`) or all of the patterns, or not like. #}
{%- macro like_condition(column_name, like_pattern_list, match_on, found=true) -%}
    {%- do dbt_expectations.check_list('like_pattern_list', like_pattern_list) -%}
    {%- do dbt_expectations.check_choice('match_on', match_on, ['any', 'all']) -%}
    {%- set conditions = [] -%}
    {%- for pattern in like_pattern_list -%}
        {%- set literal = dbt_expectations.text_literal('like_pattern', pattern) -%}
        {%- set operator = ' like ' if found else ' not like ' -%}
        {%- do conditions.append(column_name ~ operator ~ literal) -%}
    {%- endfor -%}
    {{- '(' ~ conditions | join(' and ' if match_on == 'all' else ' or ') ~ ')' -}}
{%- endmacro -%}
