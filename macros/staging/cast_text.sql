{#
    Read a text as a type, or NULL where it does not fit.

    Landing renders this very macro to find the rows that do not fit, so what
    passed the door is never silently NULL here. Hence plain Jinja only: no
    `ref`, no `return`, nothing that only dbt knows.

    Why not a bare cast: it rounds decimals, refuses `+5.0e+02` as an integer
    (AWS DMS writes floats so), reads `2024` as a date and `10:11:12` as today,
    and drops the hour of a time that is read as a date.
#}
{%- macro cast_text(text, type) -%}
    {%- set type = type | lower -%}
    {%- if type == 'string' -%}
        {{ text }}
    {%- elif type in ('tinyint', 'smallint', 'int', 'integer', 'bigint') -%}
        if(
            try_cast({{ text }} as decimal(38, 18)) % 1 = 0,
            try_cast(try_cast({{ text }} as decimal(38, 18)) as {{ type }}),
            null
        )
    {%- elif type.startswith('decimal') -%}
        {%- set precision, scale = type[8:-1].split(',') -%}
        {%- set exact = 'decimal(38, ' ~ (38 - precision | int + scale | int) ~ ')' -%}
        if(
            try_cast({{ text }} as {{ exact }}) = try_cast({{ text }} as {{ type }})
            and not {{ text }} rlike '[.][0-9]{{ '{' ~ scale | int ~ '}' }}[0-9]*[1-9][0-9]* *$',
            try_cast({{ text }} as {{ type }}),
            null
        )
    {%- elif type == 'date' -%}
        if(
            trim({{ text }}) rlike '^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ]00:00:00[.0]*)?$',
            try_cast({{ text }} as date),
            null
        )
    {%- elif type in ('timestamp', 'timestamp_ntz') -%}
        if(
            trim({{ text }}) rlike '^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ][0-9:.]+)?( ?(Z|UTC|[+-][0-9:]+))?$',
            try_cast({{ text }} as {{ type }}),
            null
        )
    {%- elif type == 'binary' -%}
        try_to_binary({{ text }}, 'base64')
    {%- else -%}
        try_cast({{ text }} as {{ type }})
    {%- endif -%}
{%- endmacro -%}
