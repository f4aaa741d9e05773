{#
    Split a text that lists column names: `a, b`, or as JSON `["a", "b"]`.

    Landing renders this same macro, to refuse a list with an unknown name. So use only
    plain Jinja.
#}
{%- macro names_in_list(text) -%}
    filter(split(regexp_replace(lower({{ text }}), '[^a-z0-9_,]', ''), ','), name -> name <> '')
{%- endmacro -%}
