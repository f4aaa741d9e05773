{#
    Check the options of a history, and fill in the defaults: the tracked columns, the names
    of Tidemark's own columns, and which of the optional columns it has.
#}
{%- macro history_shape(
    feed, tracked, untracked, column_names, open_end, show_deletes, bitemporal
) -%}

    {%- if tracked and untracked -%}
        {%- do exceptions.raise_compiler_error(
            "Set either `tracked` or `untracked` for a history, not both."
        ) -%}
    {%- endif -%}
    {%- set kept = feed.kept.keys() | map('lower') | list -%}
    {%- for name in (tracked or []) + (untracked or []) if execute and name | lower not in kept -%}
        {%- do exceptions.raise_compiler_error(
            "The " ~ ('tracked' if tracked else 'untracked') ~ " column " ~ name
            ~ " is not a column of the feed. Its columns are " ~ feed.kept.keys() | join(', ') ~ "."
        ) -%}
    {%- endfor -%}
    {%- set tracked_columns = [] -%}
    {%- for name in tracked or feed.kept.keys() if name | lower not in (untracked or []) | map('lower') | list -%}
        {%- do tracked_columns.append(name) -%}
    {%- endfor -%}

    {%- set own = ['valid_from', 'valid_to', 'is_current', 'version_number']
        + (['is_deleted'] if show_deletes else [])
        + (['known_from', 'known_to'] if bitemporal else []) -%}
    {%- set names = {} -%}
    {%- for name in ['version_key'] + own -%}
        {%- do names.update({name: (column_names or {}).get(name, name)}) -%}
    {%- endfor -%}
    {%- for name in column_names or {} if name not in names -%}
        {%- do exceptions.raise_compiler_error(
            "column_names: this history has no column " ~ name ~ " of its own. Its own columns are "
            ~ names.keys() | join(', ') ~ "."
        ) -%}
    {%- endfor -%}
    {%- for name in names.values() if name | lower in kept -%}
        {%- do exceptions.raise_compiler_error(
            "column_names: the feed already has a column " ~ name ~ ". Choose another name."
        ) -%}
    {%- endfor -%}

    {%- do return({
        'tracked': tracked_columns,
        'own': own,
        'names': names,
        'open_end': open_end,
        'show_deletes': show_deletes,
        'bitemporal': bitemporal,
        'settings': {
            'tracked columns': (
                tracked | join(', ') if tracked
                else 'all but ' ~ untracked | join(', ') if untracked
                else 'all'
            ),
            'own column names': names.values() | join(', '),
            'open end': (open_end or 'NULL') | string,
        },
    }) -%}

{%- endmacro -%}
