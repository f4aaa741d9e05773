{#
    Cast a text to a type, or to NULL if it does not fit.

    Landing renders this same macro to find the rows that do not fit, so a value that has
    landed is never silently NULL here. So use only plain Jinja: no `ref`, no `return`,
    nothing that only dbt knows.

    Why not a bare cast: it rounds decimals, refuses `+5.0e+02` as an integer (AWS DMS writes
    floats this way), reads `2024` as a date and `10:11:12` as today, drops the time of day
    when it reads a time as a date, drops the zone when it reads a time as a type without
    one, and makes `1e999` infinite.
#}
{%- macro cast_text(text, type) -%}
    {%- set type = type | lower -%}
    {%- if type == 'string' -%}
        {{ text }}
    {%- elif type in ('tinyint', 'smallint', 'int', 'integer', 'bigint') -%}
        if(
            {{ tidemark._fits_scale(text, 0) }},
            try_cast(try_cast({{ text }} as decimal(38, 0)) as {{ type }}),
            null
        )
    {%- elif type.startswith('decimal') -%}
        {%- set scale = type[8:-1].split(',')[1] | int -%}
        if({{ tidemark._fits_scale(text, scale) }}, try_cast({{ text }} as {{ type }}), null)
    {%- elif type in ('float', 'double') -%}
        if(
            abs(try_cast({{ text }} as {{ type }})) = double('infinity') and {{ text }} rlike '[0-9]',
            null,
            try_cast({{ text }} as {{ type }})
        )
    {%- elif type == 'date' -%}
        if(
            trim({{ text }}) rlike '^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ]00:00:00[.0]*)?$',
            try_cast({{ text }} as date),
            null
        )
    {%- elif type in ('timestamp', 'timestamp_ntz') -%}
        {#- A type without a zone accepts only UTC: with any other zone, the hours would be lost. -#}
        {%- set offset = '[+-][0-9:]+' if type == 'timestamp' else '[+-][0:]+' -%}
        if(
            trim({{ text }}) rlike '^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ][0-9:.]+)?( ?(Z|UTC|{{ offset }}))?$',
            try_cast({{ text }} as {{ type }}),
            null
        )
    {%- elif type == 'binary' -%}
        try_to_binary({{ text }}, 'base64')
    {%- else -%}
        try_cast({{ text }} as {{ type }})
    {%- endif -%}
{%- endmacro -%}


{#
    Whether a number has only zeros after this many decimal places. A cast would round the
    other digits away, and with 38 digits there is no wider type to compare with. For plain
    numbers, which most texts are, one regex is enough. For `155.5e-1`, the digits are
    counted, without the sign, the point, and surrounding blanks and control characters.
#}
{%- macro _fits_scale(text, scale) -%}
    {%- set digits = "regexp_replace(%s, concat('[-+.', chr(1), '- ]'), '')" -%}
    {%- set mantissa = "substring_index(lower(" ~ text ~ "), 'e', 1)" -%}
    {%- set exponent = "try_cast(substring_index(lower(" ~ text ~ "), 'e', -1) as int)" -%}
    (
        {{ text }} rlike '^ *[+-]?[0-9]*([.][0-9]{{ '{0,' ~ scale ~ '}' }}0*)? *$'
        or substring(
            {{ digits | format(mantissa) }},
            1 + greatest(
                length({{ digits | format("substring_index(" ~ mantissa ~ ", '.', 1)") }})
                + if(contains(lower({{ text }}), 'e'), {{ exponent }}, 0)
                + {{ scale }},
                0
            )
        ) not rlike '[^0]'
    )
{%- endmacro -%}
