{#
    Read a change log as typed change events, in the one shape that all downstream models
    expect.

    Landing refused every text that does not fit its type, with the same `cast_text`. If the
    YAML gives a column another type later, and a text in the log does not fit it, the build
    fails: a value never becomes NULL. For a delete, only the key and the sequence are read:
    a source may leave the other columns empty, or fill them with defaults.
#}
{%- macro typed_changes(log, feed) -%}
    {%- set has_reloads = feed.has_generations and tidemark.log_has_reloads(log) -%}
    {%- set typed = {} -%}
    {%- for name, type in feed.columns.items() -%}
        {%- do typed.update({name: tidemark._typed(name, type)}) -%}
    {%- endfor -%}
    select
        {{- tidemark.event_columns(feed, typed) | indent(4) }}
        _op,
        _is_delete,
        _changed_at,
        named_struct(
            {{ tidemark.place_of_change(feed, has_reloads) | indent(12) }},
            'file_at', _file_at,
            'file', {{ tidemark.file_of_change(feed) }},
            'position', _position,
            'load_id', _load_id
        ) as _order,
        _load_id,
        _landed_at
        {%- if has_reloads %},
        transform({{ tidemark.reloads_before() }}, reload -> reload._load_id) as _after_reloads
        {%- elif feed.has_generations %},
        cast(array() as array<bigint>) as _after_reloads
        {%- endif %}

    from {{ log }}
    {%- if has_reloads %}

    cross join (
        select coalesce(array_agg(struct(_file_at, _load_id)), array()) as _reloads
        from {{ log }}
        where
            _is_delete
            and _op = 'T'
            and _position = 0
    )
    {%- endif %}
{%- endmacro -%}


{%- macro _typed(name, type) -%}
    {%- if type == 'string' -%}
        `{{ name }}`
    {%- else -%}
        coalesce(
            {{ tidemark.cast_text('`' ~ name ~ '`', type) }},
            if(
                `{{ name }}` is null,
                null,
                raise_error(concat(
                    '{{ name }} has the text ', `{{ name }}`, ' in ', {{ tidemark.file_column() }},
                    ', which does not fit its data_type {{ type }}: correct it in the YAML.'
                ))
            )
        )
    {%- endif -%}
{%- endmacro -%}
