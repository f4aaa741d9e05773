{#
    The surrogate key of a version: a function of key and start alone, so that
    a rebuild gives the same keys. JSON keeps ('ab', 'c') and ('a', 'bc') apart;
    it would cut a timestamp to milliseconds, so the start is a number in it.
#}
{%- macro version_key(key, valid_from, known_from=none) -%}
    md5(to_json(struct(
        {{- key | join(', ') }}, unix_micros({{ valid_from }}) as valid_from
        {%- if known_from %}, unix_micros({{ known_from }}) as known_from{% endif -%}
    )))
{%- endmacro -%}
