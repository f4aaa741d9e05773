{# Refuse a value that the stand-in does not know. #}
{%- macro check_choice(argument, value, choices) -%}
    {%- if value not in choices -%}
        {%- do exceptions.raise_compiler_error(
            "dbt_expectations: `" ~ argument ~ "` must be one of " ~ choices | join(', ')
            ~ " in the stand-in. Got: " ~ value
        ) -%}
    {%- endif -%}
{%- endmacro -%}
