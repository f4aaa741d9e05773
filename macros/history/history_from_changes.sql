{#
    Every version that each key ever had (SCD2), valid from (inclusive) to
    (exclusive).

    On a later build: the versions of the keys that the new loads touch. A key
    with only newer changes goes on from its open version; a key with a late
    change gets all its versions anew, and those that no longer hold come as
    rows with `_op = 'D'`, which the merge turns into deletions.
#}
{%- macro history_from_changes(changes, feed, tracked=none) -%}

{%- set incremental = is_incremental() -%}
{%- set key = feed.key | join(', ') -%}
{%- set tracked = tracked or feed.columns.keys() | list -%}
{%- for name in tracked if execute and name not in feed.columns -%}
    {%- do exceptions.raise_compiler_error(
        "history_from_changes: the tracked column " ~ name ~ " is not in the feed. Its columns are "
        ~ feed.columns.keys() | join(', ') ~ "."
    ) -%}
{%- endfor -%}
{%- set known_columns = [] -%}
{%- if incremental and execute -%}
    {%- for column in adapter.get_columns_in_relation(this) -%}
        {%- do known_columns.append(column.name) -%}
    {%- endfor -%}
{%- endif -%}
{%- set tracked_values -%}
    struct({% for name in tracked %}`{{ name }}`{% if not loop.last %}, {% endif %}{% endfor %})
{%- endset -%}
{%- set in_order = 'partition by ' ~ key ~ ' order by _order' -%}

with

changes as (

    {{ changes_to_apply(
        changes,
        feed,
        known=this if incremental else none,
        watermark=watermark(this) if incremental else 0,
        known_at='greatest(_changed_at, valid_to)',
    ) | indent(4) }}

),
{% if incremental %}
continued_keys as (

    select distinct {{ key }} from changes where not _is_late

),

continued as (

    select
        {{ key }},
        max(version_number) - count_if(is_current) as _base_number

    from {{ this }}

    left semi join continued_keys using ({{ key }})

    group by {{ key }}

),

open_versions as (

    select
        {%- for name, type in feed.columns.items() %}
        {% if name in known_columns %}`{{ name }}`{% else %}cast(null as {{ type }}) as `{{ name }}`{% endif %},
        {%- endfor %}
        _op,
        _changed_at,
        _order,
        _load_id,
        valid_from as _known_from

    from {{ this }}

    left semi join continued_keys using ({{ key }})

    where is_current

),
{% endif %}
events as (

    select
        {%- for name in feed.columns %}
        `{{ name }}`,
        {%- endfor %}
        _op,
        _changed_at,
        _order,
        _load_id,
        cast(null as timestamp) as _known_from

    from changes
    {% if incremental %}
    union all

    select * from open_versions
    {% endif %}
),

first_copies as (

    {{ first_copies('events', feed, also=['_known_from']) | indent(4) }}

),

{# A change cannot take effect after the one that follows it: clocks go back, sequences do not. #}
timed as (

    select
        *,
        min(_changed_at) over (
            {{ in_order }}
            rows between current row and unbounded following
        ) as _effective_at,
        lead(struct(_order.phase, _order.sequence)) over ({{ in_order }}) as _next_sequence

    from first_copies

),

last_of_sequence as (

    select
        *,
        lead(_effective_at) over ({{ in_order }}) as _next_effective_at

    from timed

    where not _next_sequence <=> struct(_order.phase, _order.sequence)

),

last_of_instant as (

    select
        *,
        lag(_op) over ({{ in_order }}) as _previous_op,
        lag({{ tracked_values }}) over ({{ in_order }}) as _previous_values

    from last_of_sequence

    where
        _next_effective_at is null
        or _next_effective_at > _effective_at

),

numbered_runs as (

    select
        *,
        count_if(
            _op = 'D'
            or _previous_op is null
            or _previous_op = 'D'
            or not _previous_values <=> {{ tracked_values }}
        ) over ({{ in_order }}) as _run

    from last_of_instant

),

runs as (

    select
        {{ key }},
        max_by(struct(*), _order) as last_change,
        min(coalesce(_known_from, _effective_at)) as valid_from,
        min_by(_load_id, _order) as _first_load_id,
        max(_load_id) as _last_load_id

    from numbered_runs

    group by {{ key }}, _run

),

bounded as (

    select
        *,
        lead(valid_from) over (partition by {{ key }} order by valid_from) as valid_to,
        lead(_first_load_id) over (partition by {{ key }} order by valid_from) as _closed_by_load_id

    from runs

),

versions as (

    select
        {{ version_key(feed.key, 'valid_from') }} as version_key,
        {%- for name in feed.columns %}
        last_change.`{{ name }}`,
        {%- endfor %}
        valid_from,
        valid_to,
        valid_to is null as is_current,
        row_number() over (partition by {{ key }} order by valid_from) as _number,
        last_change._op,
        last_change._changed_at,
        last_change._order,
        greatest(_last_load_id, _closed_by_load_id) as _load_id

    from bounded

    where last_change._op <> 'D'

)
{%- if incremental %},

late_keys as (

    select distinct {{ key }} from changes where _is_late

),

stale as (

    select known.*

    from {{ this }} as known

    left semi join late_keys using ({{ key }})

    left anti join versions using (version_key)

)
{%- endif %}

select
    version_key,
    {%- for name in feed.columns %}
    versions.`{{ name }}`,
    {%- endfor %}
    valid_from,
    valid_to,
    is_current,
    {% if incremental -%}
    cast(coalesce(_base_number, 0) + _number as int) as version_number,
    {%- else -%}
    cast(_number as int) as version_number,
    {%- endif %}
    _op,
    _changed_at,
    _order,
    _load_id

from versions
{% if incremental %}
left join continued using ({{ key }})

union all

select
    version_key,
    {%- for name, type in feed.columns.items() %}
    {% if name in known_columns %}`{{ name }}`{% else %}cast(null as {{ type }}){% endif %},
    {%- endfor %}
    valid_from,
    valid_to,
    is_current,
    version_number,
    'D' as _op,
    _changed_at,
    _order,
    _load_id

from stale
{% endif %}

{%- endmacro -%}
