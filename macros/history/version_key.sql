{#
    The surrogate key of a version. It depends only on the key and the start, so a rebuild
    gives the same surrogate keys. JSON keeps ('ab', 'c') and ('a', 'bc') apart. But JSON cuts
    timestamps to milliseconds. So the start is in it as a number, and the digits cut off a
    timestamp of the key follow in a separate field. If they are zero, the field is NULL and
    JSON leaves it out, so all other version keys stay the same as before.
#}
{%- macro version_key(feed, valid_from, known_from=none) -%}
    md5(to_json(
        struct(
            {{- tidemark.quoted(feed.key) }}, unix_micros({{ valid_from }}) as valid_from
            {%- if known_from %}, unix_micros({{ known_from }}) as known_from{% endif -%}
            {%- for name in feed.key if feed.columns[name].startswith('timestamp') -%}
            , nullif(pmod(unix_micros(cast(`{{ name }}` as timestamp)), 1000), 0) as `{{ name }} below milliseconds`
            {%- endfor -%}
        ),
        map('ignoreNullFields', 'true')
    ))
{%- endmacro -%}
