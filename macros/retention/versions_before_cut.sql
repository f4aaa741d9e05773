{#
    What a history knows of each key from before the changes that a cut log still has, as CTEs:
    `with_version_before` are the changes, and before them the version into which the first one
    falls; `versions_before` are the version keys of all earlier versions, which stay as they are.
    The CTE `last_of_sequence` must come before. See `cut_of`.

    The version before is written as a change: as it is, or as a delete if it ended before the first
    change. So a change may split it, or go on with it, and numbers go on.
#}
{%- macro versions_before_cut(feed, shape, table, keys) -%}
{%- set key = tidemark.quoted(feed.key) -%}
{%- set there = tidemark._columns(table) | map('lower') | list -%}
{%- set version = 'last_before._version.' -%}
{%- set has_ended = 'false' if shape.show_deletes else 'coalesce(' ~ version ~ shape.names.valid_to ~ ' < _first_at, false)' -%}
first_changes as (

    select
        {{ key }},
        min(_effective_at) as _first_at,
        min(_order) as _first_order

    from last_of_sequence

    {% if keys %}
    left semi join {{ keys }} using ({{ key }})

    {% endif %}
    where _kept_from is not null

    group by {{ key }}

),

last_before as (

    select
        {{ key }},
        _first_at,
        _first_order,
        max_by(struct(known.*), known.{{ shape.names.version_number }}) as _version

    from (select * from {{ table }}) as known

    inner join first_changes using ({{ key }})

    where known.{{ shape.names.valid_from }} < _first_at

    group by {{ key }}, _first_at, _first_order

),

versions_before as (

    select known.{{ shape.names.version_key }}

    from (select * from {{ table }}) as known

    inner join last_before using ({{ key }})

    where
        known.{{ shape.names.version_number }} < {{ version }}{{ shape.names.version_number }}
        or (known.{{ shape.names.version_number }} = {{ version }}{{ shape.names.version_number }} and {{ has_ended }})

),

with_version_before as (

    select
        {%- for name in feed.columns %}
        `{{ name }}`,
        {%- endfor %}
        _op,
        _changed_at,
        _order,
        _load_id,
        _known_from,
        _known_number,
        _effective_at,
        _next_effective_at

    from last_of_sequence

    union all

    select
        {%- for name, type in feed.columns.items() %}
        {% if name | lower in there %}{{ version }}`{{ name }}`{% else %}cast(null as {{ type }}){% endif %},
        {%- endfor %}
        if({{ has_ended }}, 'D', {{ version }}_op) as _op,
        if({{ has_ended }}, {{ version }}{{ shape.names.valid_to }}, {{ version }}_changed_at) as _changed_at,
        -- The version may show a later change, but begins before the first one.
        if(
            {{ version }}_order < _first_order,
            {{ version }}_order,
            named_struct(
                'phase', _first_order.phase,
                'sequence', _first_order.sequence,
                'file_at', _first_order.file_at,
                'file', _first_order.file,
                'position', _first_order.position - 1,
                'load_id', _first_order.load_id
            )
        ) as _order,
        {{ version }}_load_id,
        cast(null as timestamp) as _known_from,
        {{ version }}{{ shape.names.version_number }} - if({{ has_ended }}, 0, 1) as _known_number,
        if({{ has_ended }}, {{ version }}{{ shape.names.valid_to }}, {{ version }}{{ shape.names.valid_from }}) as _effective_at,
        _first_at as _next_effective_at

    from last_before

),
{%- endmacro -%}


{#
    Whether the table has versions from before the cut of its log, so that building it anew must keep
    them. Stops a build that could not: a table with another key or other names. Warns if there is no
    table, because then the history begins at the cut.
#}
{%- macro has_versions_before_cut(feed, shape, table, cut) -%}
    {%- set there = load_relation(table) -%}
    {%- if not there or there.is_view -%}
        {%- do exceptions.warn(
            table ~ " begins at " ~ cut.before ~ ": from before, the log of " ~ feed.name ~ " has only the last change of each "
            ~ "key (keep_changes)."
        ) -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- set columns = tidemark._columns(there) | map('lower') | list -%}
    {%- set key = tidemark._derivation(feed, {}).key -%}
    {%- set was = (tidemark._known_derivation(there) or {}).get('key', key) -%}
    {%- set lacking = shape.names.values() | map('lower') | reject('in', columns) | list -%}
    {%- if was | lower != key | lower or lacking -%}
        {%- do exceptions.raise_compiler_error(
            table ~ " has versions that its log no longer has (keep_changes), so it cannot be rebuilt with "
            ~ ("the key " ~ key ~ " instead of " ~ was if was | lower != key | lower else "other column names") ~ ". Revert the "
            ~ "change. Or rename the table, to keep these versions in it, and build a new one, which begins at " ~ cut.before ~ "."
        ) -%}
    {%- endif -%}
    {%- if not tidemark.table_format(config.get('file_format')).replaces -%}
        {%- do exceptions.raise_compiler_error(
            table ~ " has versions that its log no longer has (keep_changes), and to build it with file_format: "
            ~ config.get('file_format') ~ ", dbt would drop it first. Nothing was dropped. Set another file_format."
        ) -%}
    {%- endif -%}
    {%- do return(true) -%}
{%- endmacro -%}
