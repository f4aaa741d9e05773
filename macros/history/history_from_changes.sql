{#
    Every version that each key ever had (SCD2), valid from (inclusive) to
    (exclusive).

    On a later build: the versions of the keys that the new loads touch. While
    all changes come in order, a key goes on from its open version. Otherwise
    its versions are derived anew, and those that no longer hold come as rows
    with `_op = 'D'`, which the merge turns into deletions.
#}
{%- macro history_from_changes(changes, feed, tracked=none) -%}

{%- set key = feed.key | join(', ') -%}
{%- set tracked = tracked or feed.columns.keys() | list -%}
{%- for name in tracked if execute and name not in feed.columns -%}
    {%- do exceptions.raise_compiler_error(
        "history_from_changes: the tracked column " ~ name ~ " is not in the feed. Its columns are "
        ~ feed.columns.keys() | join(', ') ~ "."
    ) -%}
{%- endfor -%}
{%- set tracked_values -%}
    struct({% for name in tracked %}`{{ name }}`{% if not loop.last %}, {% endif %}{% endfor %})
{%- endset -%}
{%- set in_order = 'partition by ' ~ key ~ ' order by _order' -%}
{%- set scope = scope_of_changes(changes, feed, this, with_times=true) -%}
{%- set continues = scope.kind == 'in_order' -%}
{%- set replaces = is_incremental() and scope.kind in ('whole_story', 'everything') -%}
{%- set known_columns = [] -%}
{%- if continues or replaces -%}
    {%- for column in adapter.get_columns_in_relation(this) -%}
        {%- do known_columns.append(column.name) -%}
    {%- endfor -%}
{%- endif -%}

with

changes as (

    {{ changes_in_scope(changes, feed, this, scope) | indent(4) }}

),
{% if continues %}
{# The last version of each key, as the change that it came from; if it is closed, its delete. #}
last_versions as (

    select
        {{ key }},
        max_by(struct(*), version_number) as version

    from {{ this }}

    left semi join changes using ({{ key }})
    {% if not feed.has_truncates %}
    where is_current
    {% endif %}
    group by {{ key }}

),
{% endif %}
events as (

    select
        *,
        cast(null as timestamp) as _known_from,
        0 as _known_number

    from changes
    {% if continues %}
    union all

    select
        {%- for name, type in feed.columns.items() %}
        {% if name in known_columns %}version.`{{ name }}`{% else %}cast(null as {{ type }}){% endif %},
        {%- endfor %}
        if(version.is_current, version._op, 'D') as _op,
        if(version.is_current, version._changed_at, version.valid_to) as _changed_at,
        version._order,
        version._load_id,
        if(version.is_current, version.valid_from, null) as _known_from,
        version.version_number - if(version.is_current, 1, 0) as _known_number

    from last_versions
    {% endif %}
),

first_copies as (

    {{ first_copies('events', feed, also=['_known_from', '_known_number']) | indent(4) }}

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
        max(_known_number) as _known_number,
        min_by(_load_id, _order) as _first_load_id,
        max(_load_id) as _last_load_id

    from numbered_runs

    group by {{ key }}, _run

),

bounded as (

    select
        *,
        max(_known_number) over (partition by {{ key }}) as _base_number,
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
        cast(
            _base_number + row_number() over (partition by {{ key }} order by valid_from) as int
        ) as version_number,
        last_change._op,
        last_change._changed_at,
        last_change._order,
        greatest(_last_load_id, _closed_by_load_id) as _load_id

    from bounded

    where last_change._op <> 'D'

)

select * from versions
{% if replaces %}
union all

select
    known.version_key,
    {%- for name, type in feed.columns.items() %}
    {% if name in known_columns %}known.`{{ name }}`{% else %}cast(null as {{ type }}){% endif %},
    {%- endfor %}
    known.valid_from,
    known.valid_to,
    known.is_current,
    known.version_number,
    'D' as _op,
    known._changed_at,
    known._order,
    known._load_id

from {{ this }} as known

left semi join changes using ({{ key }})

left anti join versions using (version_key)
{% endif %}

{%- endmacro -%}
