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
            'phase', {{ tidemark._phase(feed, has_reloads) }},
            'sequence', {{ tidemark._sequence(feed) }},
            'file_at', _file_at,
            'file', _file,
            'position', _position,
            'load_id', _load_id
        ) as _order,
        _load_id,
        _landed_at
        {%- if has_reloads %},
        transform({{ tidemark._reloads_before() }}, reload -> reload._load_id) as _after_reloads
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
                    '{{ name }} has the text ', `{{ name }}`, ' in ', _file,
                    ', which does not fit its data_type {{ type }}: correct it in the YAML.'
                ))
            )
        )
    {%- endif -%}
{%- endmacro -%}


{#
    The rows of an initial load are older than every change, whatever their own columns
    say. A reload starts a new generation: its rows come after all changes in earlier
    files, and before the changes in later files. Without a declared sequence, the times
    of the files already give this order. An epoch, in which the sequence starts again,
    works the same way: a Debezium snapshot is older than the changes of its own epoch. A
    DMS task has one initial load, however late its files were written. All other loads
    are reloads.
#}
{%- macro _phase(feed, has_reloads) -%}
    {%- set epochs_before -%}
        {%- if feed.epochs %} + 2 * {{ tidemark.epoch_of(feed.epochs, feed.epoch_at) }}{% endif -%}
    {%- endset -%}
    {%- if has_reloads -%}
        if(
            _is_initial,
            0,
            if({{ tidemark._is_reload() }}, 0, 1)
            + 2 * size({{ tidemark._reloads_before() }})
            {{- epochs_before }}
        )
    {%- elif feed.has_generations -%}
        if(_is_initial, 0, 1{{ epochs_before }})
    {%- else -%}
        if(_is_initial, 0, 1){{ epochs_before }}
    {%- endif -%}
{%- endmacro -%}


{%- macro _reloads_before() -%}
    filter(_reloads, reload -> reload._file_at <= _file_at)
{%- endmacro -%}


{#- The rows of a load, and the truncate at position 0 that landing puts before the rows of a reload. -#}
{%- macro _is_reload() -%}
    (_op = 'R' or _position = 0)
{%- endmacro -%}


{#
    Without a declared sequence, the position in the files orders the changes. If a row
    goes from a to b and back to a in one file, it has changed twice, and the second a is
    not a copy of the first.
#}
{%- macro _sequence(feed) -%}
    {%- if feed.is_placed -%}
        if(_is_initial, null, _sequence)
    {%- elif not feed.sequence -%}
        if(
            _is_initial,
            null,
            named_struct('file_at', _file_at, 'file', _file, 'position', _position)
        )
    {%- else -%}
        if(
            _is_initial or {{ tidemark._is_reload() }},
            null,
            {%- if feed.sequence | length == 1 %}
            {{ tidemark.cast_text('`' ~ feed.sequence[0] ~ '`', feed.columns[feed.sequence[0]]) }}
            {%- else %}
            named_struct(
                {%- for name in feed.sequence %}
                '{{ name }}', {{ tidemark.cast_text('`' ~ name ~ '`', feed.columns[name]) }}
                {%- if not loop.last %},{% endif %}
                {%- endfor %}
            )
            {%- endif %}
        )
    {%- endif -%}
{%- endmacro -%}
