{# Refuse anything but a list with members: a text would be read letter by letter. #}
{%- macro check_list(argument, value) -%}
    {%- if value is none or value is string or value is mapping or value is not sequence -%}
        {%- do exceptions.raise_compiler_error(
            "dbt_expectations: `" ~ argument ~ "` must be a list, e.g. [a, b]. Got: " ~ value
        ) -%}
    {%- elif value | length == 0 -%}
        {%- do exceptions.raise_compiler_error(
            "dbt_expectations: `" ~ argument ~ "` is an empty list; name at least one member."
        ) -%}
    {%- endif -%}
{%- endmacro -%}
