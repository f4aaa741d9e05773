{#
    The fields `phase` and `sequence` of `_order`: where a change of the log stands among those of its
    key. With `has_reloads`, the query has the reloads of the log as `_reloads`.

    Landing renders this same macro, to compare the changes of a load with those of a log that was
    cut. So use only plain Jinja.
#}
{%- macro place_of_change(feed, has_reloads) -%}
    'phase', {{ tidemark._phase(feed, has_reloads) }},
    'sequence', {{ tidemark._sequence(feed) }}
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
            + 2 * size({{ tidemark.reloads_before() }})
            {{- epochs_before }}
        )
    {%- elif feed.has_generations -%}
        if(_is_initial, 0, 1{{ epochs_before }})
    {%- else -%}
        if(_is_initial, 0, 1){{ epochs_before }}
    {%- endif -%}
{%- endmacro -%}


{#-
    The files of a reload are of one time, and may come in any order. Its truncate deletes what came
    before all of them.
-#}
{%- macro file_of_change(feed) -%}
    {%- if feed.format == 'dms' -%}
        if(_op = 'T' and _position = 0, '', {{ tidemark.file_column() }})
    {%- else -%}
        {{ tidemark.file_column() }}
    {%- endif -%}
{%- endmacro -%}


{#- The rows of a load, and the truncate at position 0 that landing puts before the rows of a reload. -#}
{%- macro _is_reload() -%}
    (_op = 'R' or _position = 0)
{%- endmacro -%}


{#
    Without a declared sequence, the position in the files orders the changes. If a row
    goes from a to b and back to a in one file, it has changed twice, and the second a is
    not a copy of the first. Rows that Debezium snapshots while it streams are changes, too.
#}
{%- macro _sequence(feed) -%}
    {%- if feed.is_placed -%}
        if(_is_initial, null, _sequence)
    {%- elif not feed.sequence -%}
        if(
            _is_initial,
            null,
            named_struct('file_at', _file_at, 'file', {{ tidemark._file_in_order(feed) }}, 'position', _position)
        )
    {%- else -%}
        if(
            _is_initial{% if feed.format != 'debezium' %} or {{ tidemark._is_reload() }}{% endif %},
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


{#-
    The truncate of an extract that is a folder has the folder as its file. The extracts `2024-01-31` and
    `2024-01-31-again` must not mix, although `-` comes before `/`.
-#}
{%- macro _file_in_order(feed) -%}
    {%- if feed.is_of_folders -%}
        translate({{ tidemark.file_column() }}, '/', char(1))
    {%- else -%}
        {{ tidemark.file_of_change(feed) }}
    {%- endif -%}
{%- endmacro -%}
