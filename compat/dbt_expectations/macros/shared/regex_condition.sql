{#
    A boolean expression: the regex is found (or, with `found=false`, not found) in the column.

    Several regexes: one of them is enough for `any`, `all` needs every one.
#}
{%- macro regex_condition(column_name, regex_list, match_on, is_raw, flags, found=true) -%}
    {%- do dbt_expectations.check_list('regex_list', regex_list) -%}
    {%- do dbt_expectations.check_choice('match_on', match_on, ['any', 'all']) -%}
    {%- set conditions = [] -%}
    {%- for regex in regex_list -%}
        {%- set position = dbt_expectations.regexp_instr(
            column_name, regex, is_raw=is_raw, flags=flags
        ) -%}
        {%- do conditions.append(position ~ (' > 0' if found else ' = 0')) -%}
    {%- endfor -%}
    {{- '(' ~ conditions | join(' and ' if match_on == 'all' else ' or ') ~ ')' -}}
{%- endmacro -%}
