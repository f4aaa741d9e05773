{# A value as an SQL text literal. A quote inside would end it: the hub package breaks there too. #}
{%- macro text_literal(argument, value) -%}
    {%- if value is none or "'" in value | string -%}
        {%- do exceptions.raise_compiler_error(
            "dbt_expectations: `" ~ argument
            ~ "` must not hold a null or a text with a single quote. Got: " ~ value
        ) -%}
    {%- endif -%}
    '{{ value }}'
{%- endmacro -%}
