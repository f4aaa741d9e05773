{#
    The surrogate key of a version: a function of key and start alone, so that
    a rebuild gives the same keys. JSON keeps ('ab', 'c') and ('a', 'bc') apart.
    It cuts timestamps to milliseconds: so the start is a number in it, and what
    it cuts off a timestamp of the key comes behind. Where that is nothing it is a NULL,
    which JSON leaves out, so that all other keys have the text that they always had.
#}
{%- macro version_key(feed, valid_from, known_from=none) -%}
    md5(to_json(
        struct(
            {{- feed.key | join(', ') }}, unix_micros({{ valid_from }}) as valid_from
            {%- if known_from %}, unix_micros({{ known_from }}) as known_from{% endif -%}
            {%- for name in feed.key if feed.columns[name].startswith('timestamp') -%}
            , nullif(pmod(unix_micros(cast(`{{ name }}` as timestamp)), 1000), 0) as `{{ name }} below milliseconds`
            {%- endfor -%}
        ),
        map('ignoreNullFields', 'true')
    ))
{%- endmacro -%}
