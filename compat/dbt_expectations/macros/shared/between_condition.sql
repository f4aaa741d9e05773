{#
    A boolean expression: the value lies between the bounds.

    Compared with none, because 0 is a bound.
#}
{%- macro between_condition(expression, min_value, max_value, strictly) -%}
    {%- if min_value is none and max_value is none -%}
        {%- do exceptions.raise_compiler_error(
            "You have to provide either a min_value, max_value or both."
        ) -%}
    {%- endif -%}
    {%- set conditions = [] -%}
    {%- if min_value is not none -%}
        {%- set operator = '>' if strictly else '>=' -%}
        {%- do conditions.append(expression ~ ' ' ~ operator ~ ' ' ~ min_value) -%}
    {%- endif -%}
    {%- if max_value is not none -%}
        {%- set operator = '<' if strictly else '<=' -%}
        {%- do conditions.append(expression ~ ' ' ~ operator ~ ' ' ~ max_value) -%}
    {%- endif -%}
    {{- conditions | join(' and ') -}}
{%- endmacro -%}
