{#- Names of columns in an SQL list, for names with other characters than a-z, 0-9 and _ too. -#}
{%- macro quoted(names) -%}
{%- for name in names -%}`{{ name }}`{{ ', ' if not loop.last }}{%- endfor -%}
{%- endmacro -%}


{#- The condition that one of the columns is NULL. -#}
{%- macro _is_null(names) -%}
{%- for name in names -%}`{{ name }}` is null{{ ' or ' if not loop.last }}{%- endfor -%}
{%- endmacro -%}
