{#
    Read a text as a type, or NULL where it does not fit.

    Landing renders this very macro to find the rows that do not fit, so what
    passed the door is never silently NULL here. Hence plain Jinja only: no
    `ref`, no `return`, nothing that only dbt knows.

    Why not a bare cast: it rounds decimals, refuses `+5.0e+02` as an integer
    (AWS DMS writes floats so), reads `2024` as a date and `10:11:12` as today,
    drops the hour of a time that is read as a date and the zone of one that is
    to have none, and makes `1e999` infinite.
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
        {#- What has no zone may carry that of UTC alone: of another one the hours would be lost. -#}
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
    Whether a number has no digit but 0 behind so many places. A cast would round
    them away, and 38 digits leave no room to compare with. Most texts are plain
    numbers, for which one look is enough; of `155.5e-1` the digits are counted,
    without the sign, the point, and the blanks and control characters beside it.
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
