{#
    The column names that a text lists: `a, b`, or as JSON `["a", "b"]`.

    Landing renders this very macro, to refuse a list with an unknown name.
    Hence plain Jinja only.
#}
{%- macro names_in_list(text) -%}
    filter(split(regexp_replace(lower({{ text }}), '[^a-z0-9_,]', ''), ','), name -> name <> '')
{%- endmacro -%}
