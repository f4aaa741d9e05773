{#
    A column of a table that someone else writes, with its declared type. A value that does not fit
    is an error, never NULL.
#}
{%- macro cast_or_fail(name, type, from) -%}
    {%- if from == type -%}
        `{{ name }}`
    {%- else -%}
        coalesce(
            {% if from == 'string' %}{{ tidemark.cast_text('`' ~ name ~ '`', type) }}{% else %}try_cast(`{{ name }}` as {{ type }}){% endif %},
            if(
                `{{ name }}` is null,
                null,
                raise_error(concat(
                    'the column {{ name }} has the value ', cast(`{{ name }}` as string),
                    ', which does not fit its data_type {{ type }}: correct the type in the YAML.'
                ))
            )
        )
    {%- endif -%}
{%- endmacro -%}
