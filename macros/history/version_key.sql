{#
    The surrogate key of a version: a function of key and start alone, so that
    a rebuild gives the same keys. JSON keeps ('ab', 'c') and ('a', 'bc') apart.
#}
{%- macro version_key(key, valid_from) -%}
    md5(to_json(struct({{ key | join(', ') }}, {{ valid_from }} as valid_from)))
{%- endmacro -%}
