{#
    Turn the changes in scope into versions, in the shape that the model asks for. With
    `merges`, versions in the table that are no longer valid become rows with `_op = 'gone'`.
#}
{%- macro history_rows(changes, feed, shape, scope, merges) -%}

{%- set key = tidemark.quoted(feed.key) -%}
{%- set per_key = key ~ (', _as_of' if shape.bitemporal else '') -%}
{%- set in_order = 'partition by ' ~ per_key ~ ' order by _order' -%}
{%- set continues = merges and scope.goes_on -%}
{%- set replaces = merges and (scope.late_keys or scope.kind == 'everything') -%}
{#- A log that was cut does not have the earlier versions of a key that is derived again. -#}
{%- set cut = tidemark.cut_of(feed) if replaces or not merges -%}
{%- set last_step = 'whole_rows' if feed.partial else 'first_copies' -%}
{%- set also = ['_known_from', '_known_number'] + (['_as_of'] if shape.bitemporal else []) -%}
{%- set also = also + (['_kept_from'] if cut else []) + (['_is_truncate'] if scope.truncates else []) -%}
{%- set changed_at = '_changed_at' -%}
{%- if feed.table and not feed.table.changed_at -%}
    {%- set changed_at = "coalesce(_changed_at, raise_error('A history needs the time of each change. Give the feed "
        ~ feed.name ~ " changed_at, or a batch that is a timestamp.'))" -%}
{%- endif -%}
{%- set tracked_values -%}
    struct({% for name in shape.tracked %}`{{ name }}`{% if not loop.last %}, {% endif %}{% endfor %})
{%- endset -%}
{%- set keeps_before = cut and (merges or tidemark.has_versions_before_cut(feed, shape, this, cut)) -%}
{%- set known_columns = (
    tidemark._columns(this) | map('lower') | list
    if continues or replaces or keeps_before else []
) -%}
{#- The columns of a version in the table, which may lack new ones. -#}
{%- set known_version %}
    {{ shape.names.version_key }},
    {%- for name, type in feed.kept.items() %}
    cast({{ '`' ~ name ~ '`' if name | lower in known_columns else 'null' }} as {{ type }}) as `{{ name }}`,
    {%- endfor %}
    {%- for name in shape.own %}
    {{ shape.names[name] }},
    {%- endfor %}
    _op,
    _changed_at,
    _order,
    _load_id
{%- endset %}

with
{{ tidemark.keys_in_scope(feed, scope) }}
changes as (

    {{ tidemark.changes_in_scope(changes, feed, this, scope, cut) | indent(4) }}

),
{% if scope.one_each and not feed.partial and not shape.bitemporal and not cut %}
{# Each key has one change. Each change except a delete is an open version. #}
versions as (

    select
        {%- for name in feed.kept %}
        `{{ name }}`,
        {%- endfor %}
        {{ changed_at }} as _valid_from,
        cast(null as timestamp) as _valid_to,
        true as _is_current,
        1 as _version_number,
        {%- if shape.show_deletes %}
        false as _is_deleted,
        {%- endif %}
        _op,
        _changed_at,
        _order,
        _load_id

    from changes

    where _op <> 'D'

),
{% else %}
{% if continues %}
{# The last version of each key, as the change that it came from, or as its delete if it is closed. #}
last_versions as (

    select
        {{ key }},
        max_by(struct(*), {{ shape.names.version_number }}) as _version

    from {{ this }}

    left semi join {{ scope.new_keys or 'changes' }} as touched using ({{ key }})
    {% if scope.late_keys %}
    left anti join late_keys using ({{ key }})
    {% endif %}
    group by {{ key }}

),
{% elif shape.bitemporal %}
{# Each load of a key is a state of knowledge, which lasts until the key's next load. #}
loads_of_key as (

    select
        {{ key }},
        _load_id as _as_of,
        row_number() over (partition by {{ key }} order by _load_id) as _nth_load,
        min(_landed_at) as _known_from,
        lead(min(_landed_at)) over (partition by {{ key }} order by _load_id) as _known_to,
        lead(_load_id) over (partition by {{ key }} order by _load_id) as _next_load_id

    from changes

    group by {{ key }}, _load_id

),
{% endif %}
events as (

    select
        {%- for name in feed.columns %}
        `{{ name }}`,
        {%- endfor %}
        {%- if feed.partial %}
        _left_out,
        {%- endif %}
        _op,
        {{ changed_at }}{% if changed_at != '_changed_at' %} as _changed_at{% endif %},
        {{ (tidemark.order_as_of(feed, '_as_of') ~ ' as _order') | indent(8) if shape.bitemporal else '_order' }},
        _load_id,
        {%- if shape.bitemporal %}
        _as_of,
        {%- endif %}
        {%- if cut %}
        _kept_from,
        {%- endif %}
        {%- if scope.truncates %}
        _is_truncate,
        {%- endif %}
        cast(null as timestamp) as _known_from,
        0 as _known_number

    from changes
    {% if continues %}
    union all

    select
        {%- for name, type in feed.columns.items() %}
        {% if name | lower in known_columns %}_version.`{{ name }}`{% else %}cast(null as {{ type }}){% endif %},
        {%- endfor %}
        {%- if feed.partial %}
        cast(array() as array<string>) as _left_out,
        {%- endif %}
        {%- if shape.show_deletes %}
        _version._op,
        _version._changed_at,
        _version._order,
        _version._load_id,
        {%- if cut %}
        null as _kept_from,
        {%- endif %}
        {%- if scope.truncates %}
        false as _is_truncate,
        {%- endif %}
        _version.{{ shape.names.valid_from }} as _known_from,
        _version.{{ shape.names.version_number }} - 1 as _known_number
        {%- else %}
        {%- set is_open = '_version.' ~ shape.names.is_current %}
        if({{ is_open }}, _version._op, 'D') as _op,
        if({{ is_open }}, _version._changed_at, _version.{{ shape.names.valid_to }}) as _changed_at,
        _version._order,
        _version._load_id,
        {%- if cut %}
        null as _kept_from,
        {%- endif %}
        {%- if scope.truncates %}
        false as _is_truncate,
        {%- endif %}
        if({{ is_open }}, _version.{{ shape.names.valid_from }}, null) as _known_from,
        _version.{{ shape.names.version_number }} - if({{ is_open }}, 1, 0) as _known_number
        {%- endif %}

    from last_versions
    {% elif shape.bitemporal %}
    inner join loads_of_key using ({{ key }})

    where _load_id <= _as_of
    {% endif %}
),

first_copies as (

    {{ tidemark.first_copies('events', feed, also=also) | indent(4) }}

),
{% if feed.partial %}
whole_rows as (

    {{ tidemark.whole_rows('first_copies', feed, per_key=per_key, also=also) | indent(4) }}

),
{% endif %}
{% if scope.truncates %}
with_op_before as (

    select
        *,
        lag(_op) over ({{ in_order }}) as _op_before

    from {{ last_step }}

),
{% endif %}
{#
    A change cannot take effect after the change that follows it: clocks go back, sequences do not.
    A truncate changes nothing of a key that is deleted already, so its time does not count.
#}
timed as (

    select
        *,
        min(_changed_at) over (
            {{ in_order }}
            rows between current row and unbounded following
        ) as _effective_at,
        lead(struct(_order.phase, _order.sequence)) over ({{ in_order }}) as _next_sequence

    {% if scope.truncates -%}
    from with_op_before

    where not (_is_truncate and _op_before <=> 'D')
    {%- else -%}
    from {{ last_step }}
    {%- endif %}

),

last_of_sequence as (

    select
        *,
        lead(_effective_at) over ({{ in_order }}) as _next_effective_at

    from timed

    where
        not _next_sequence <=> struct(_order.phase, _order.sequence)
        {%- if cut %}
        and (_kept_from is null or struct(_order.phase, _order.sequence) >= _kept_from)
        {%- endif %}

),
{% if keeps_before %}
{{ tidemark.versions_before_cut(feed, shape, this, 'late_keys' if scope.late_keys) }}
{% endif %}
last_of_instant as (

    select
        *,
        lag(_op) over ({{ in_order }}) as _previous_op,
        lag({{ tracked_values }}) over ({{ in_order }}) as _previous_values

    from {{ 'with_version_before' if keeps_before else 'last_of_sequence' }}

    where
        _next_effective_at is null
        or _next_effective_at > _effective_at

),

{# A run: consecutive changes with the same tracked values, or consecutive deletes. #}
begun as (

    select
        *,
        _previous_op is null
        or (_op = 'D') <> (_previous_op = 'D')
        or (_op <> 'D' and not _previous_values <=> {{ tracked_values }}) as _begins_run

    from last_of_instant

),

numbered_runs as (

    select
        *,
        count_if(_begins_run) over ({{ in_order }}) as _run,
        lead(_begins_run, 1, true) over ({{ in_order }}) as _ends_run,
        last(
            if(
                _begins_run,
                struct(
                    coalesce(_known_from, _effective_at) as valid_from,
                    _known_number,
                    _load_id
                ),
                null
            ),
            true
        ) over ({{ in_order }}) as _first

    from begun

),

with_newest_load as (

    select
        *,
        max(struct(_run, _load_id)) over ({{ in_order }}) as _newest

    from numbered_runs

),

{#
    A version shows the last change of its run. A time span without the row shows its first delete.
    All windows have one order, so Spark sorts the changes once.
#}
runs as (

    select
        {{ per_key }},
        _order,
        struct(
            {%- for name in feed.kept %}
            `{{ name }}`,
            {%- endfor %}
            _op,
            _changed_at,
            _order,
            _known_from
        ) as _shown,
        _first.valid_from as _valid_from,
        _first._known_number,
        _first._load_id as _first_load_id,
        if(_op = 'D', _first._load_id, _newest._load_id) as _last_load_id

    from with_newest_load

    where if(_op = 'D', _begins_run, _ends_run)

),

bounded as (

    select
        *,
        {%- if shape.show_deletes %}
        last(if(_shown._op <> 'D' or _known_number > 0, _shown, null), true) over ({{ in_order }}) as _content,
        {%- else %}
        _shown as _content,
        {%- endif %}
        max(_known_number) over (partition by {{ per_key }}) as _base_number,
        lead(_valid_from) over ({{ in_order }}) as _valid_to,
        lead(_first_load_id) over ({{ in_order }}) as _closed_by_load_id

    from runs

),

versions as (

    select
        {%- for name in feed.kept %}
        {% if name in feed.key %}`{{ name }}`{% else %}_content.`{{ name }}`{% endif %},
        {%- endfor %}
        _valid_from,
        _valid_to,
        _shown._op <> 'D' and _valid_to is null as _is_current,
        cast(_base_number + row_number() over ({{ in_order }}) as int) as _version_number,
        {%- if shape.show_deletes %}
        _shown._op = 'D' as _is_deleted,
        {%- endif %}
        {%- if shape.bitemporal %}
        _as_of,
        {%- endif %}
        _shown._op,
        _shown._changed_at,
        _shown._order,
        greatest(_last_load_id, _closed_by_load_id) as _load_id

    from bounded

    {# A key that was deleted before it was ever seen has no row. #}
    where
        {% if shape.show_deletes -%}
        _content is not null
        {%- if continues %}
        -- The row of a deletion that the table already has.
        and not (_shown._op = 'D' and _shown._known_from is not null and _valid_to is null)
        {%- endif %}
        {%- else -%}
        _shown._op <> 'D'
        {%- endif %}

),
{% endif %}
{% if shape.bitemporal %}
{{ tidemark._known_versions(feed, shape) }}
{% endif %}
shaped as (

    select
        {{ tidemark.version_key(feed, '_valid_from', '_known_from' if shape.bitemporal else none) }}
            as {{ shape.names.version_key }},
        {%- for name in feed.kept %}
        `{{ name }}`,
        {%- endfor %}
        {%- for name in shape.own %}
        {%- if name == 'valid_to' and shape.open_end %}
        coalesce(_valid_to, timestamp'{{ shape.open_end }}') as {{ shape.names[name] }},
        {%- else %}
        _{{ name }} as {{ shape.names[name] }},
        {%- endif %}
        {%- endfor %}
        _op,
        _changed_at,
        _order,
        _load_id

    from {{ 'known_versions' if shape.bitemporal else 'versions' }}

){% if replaces %},

{#
    The merge writes every row that it gets, and reads only the key of the table. So versions that
    have not changed are left out here. The same step finds the versions that are no longer valid.
#}
compared as (

    select
        max(version) as version,
        max(known) as known

    from (
        select
            {{ shape.names.version_key }} as compared_by,
            struct(*) as version,
            null as known

        from shaped

        union all

        select
            {{ shape.names.version_key }} as compared_by,
            null as version,
            struct(
                {{- known_version | indent(12) }}
            ) as known

        from {{ this }}

        left semi join {{ 'late_keys' if scope.late_keys else 'changes' }} using ({{ key }})
        {% if keeps_before %}
        left anti join versions_before using ({{ shape.names.version_key }})
        {% endif %}
    )

    group by compared_by

),

to_merge as (

    select
        coalesce(version, known) as merged,
        version is null as is_gone

    from compared

    where not version <=> known

)

select
    merged.{{ shape.names.version_key }},
    {%- for name in feed.kept %}
    merged.`{{ name }}`,
    {%- endfor %}
    {%- for name in shape.own %}
    merged.{{ shape.names[name] }},
    {%- endfor %}
    if(is_gone, 'gone', merged._op) as _op,
    merged._changed_at,
    merged._order,
    merged._load_id

from to_merge
{% else %}

select * from shaped
{% if keeps_before and not merges %}
union all

select
    {{- known_version }}

from {{ this }}

left semi join versions_before using ({{ shape.names.version_key }})
{% endif %}
{% endif %}

{%- endmacro -%}


{#
    Combine the versions after each load of a key: a version that is the same after several
    consecutive loads is one row. It is known from the first of these loads until the load
    that changes it.
#}
{%- macro _known_versions(feed, shape) -%}
{%- set identity -%}
    {%- for name in feed.kept %}`{{ name }}`, {% endfor -%}
    {%- for name in shape.own if name not in ('known_from', 'known_to', 'is_current') %}
    _{{- name }}{% if not loop.last %}, {% endif %}
    {%- endfor -%}
{%- endset -%}
in_each_load as (

    select
        versions.*,
        _known_from,
        _known_to,
        _nth_load,
        _next_load_id,
        _nth_load - row_number() over (partition by {{ identity }} order by _nth_load) as _island

    from versions

    inner join loads_of_key using ({{ tidemark.quoted(feed.key) }}, _as_of)

),

known_versions as (

    select
        {{ identity }},
        min(_known_from) as _known_from,
        max_by(_known_to, _nth_load) as _known_to,
        bool_and(_is_current) and max_by(_known_to, _nth_load) is null as _is_current,
        max_by(_op, _nth_load) as _op,
        max_by(_changed_at, _nth_load) as _changed_at,
        max_by(_order, _nth_load) as _order,
        greatest(max_by(_as_of, _nth_load), max_by(_next_load_id, _nth_load)) as _load_id

    from in_each_load

    group by {{ identity }}, _island

),
{%- endmacro -%}
