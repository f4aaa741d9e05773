{#
    Decide which changes a build of a table has to look at, before its SQL is
    written: the SQL then holds only what this build needs.

    Returns a mapping with `watermark`, the newest load that the table has
    applied; `truncates`, whether the changes in scope may hold a truncate;
    `ever_truncated`, whether any change may be one; and `kind`:
      everything   first build, full refresh, or a late truncate
      nothing      no newer load
      in_order     newer loads only: each of their changes is newer than all
                   that is known of its key
      whole_story  all changes of the keys in the newer loads, because one of
                   them is late, or ties with a known one

    The watermark is read from the table itself, so that a restored or cloned
    table goes on from what it holds. It may fall behind (a load that changed
    nothing leaves no trace); applying a load again changes nothing.
#}
{%- macro scope_of_changes(changes, feed, table, is_current=none, can_go_on=true) -%}

    {%- if not execute or not is_incremental() -%}
        {#- In a unit test the changes are made-up rows, not a relation. -#}
        {%- if execute and feed.has_generations and '__dbt__cte__' not in changes | string -%}
            {%- set known = run_query(_truncates_known(changes, feed)).rows[0] -%}
            {%- do _require_known_reloads(changes, known['unknown_reloads']) -%}
        {%- endif -%}
        {%- do return(
            {'kind': 'everything', 'watermark': 0, 'truncates': true, 'ever_truncated': true}
        ) -%}
    {%- endif -%}

    {%- set known = run_query(_loads_known(changes, feed, table)).rows[0] -%}
    {%- set watermark = known['applied'] | int -%}
    {%- set last_truncate = known['last_truncate'] | int -%}
    {%- do _require_known_reloads(changes, known['unknown_reloads']) -%}
    {%- set ever_truncated = last_truncate > 0 -%}
    {%- set scope = {
        'kind': 'everything',
        'watermark': watermark,
        'truncates': ever_truncated,
        'ever_truncated': ever_truncated,
    } -%}

    {%- if last_truncate > watermark -%}
        {#- Of a reload not even the changes that are known stay where they are in the order. -#}
        {%- if can_go_on and not feed.has_generations
            and run_query(_late_loads(changes, table, watermark, is_current)).rows | length == 0 -%}
            {%- do scope.update({'kind': 'in_order'}) -%}
        {%- endif -%}
        {%- do return(scope) -%}
    {%- endif -%}

    {%- set key = feed.key | join(', ') -%}
    {%- set news = run_query(_new_and_late_keys(changes, key, table, scope, is_current)).rows[0] -%}
    {%- if news['new_keys'] | int == 0 -%}
        {%- do scope.update({'kind': 'nothing', 'truncates': false}) -%}
    {%- elif can_go_on and news['late_keys'] | int == 0 -%}
        {%- do scope.update({'kind': 'in_order', 'truncates': false}) -%}
    {%- else -%}
        {%- do scope.update({'kind': 'whole_story'}) -%}
    {%- endif -%}
    {%- do return(scope) -%}

{%- endmacro -%}


{%- macro _loads_known(changes, feed, table) -%}
    select
        applied,
        last_truncate,
        unknown_reloads

    from (select coalesce(max(_load_id), 0) as applied from {{ table }})

    cross join ({{ _truncates_known(changes, feed) }})
{%- endmacro -%}


{%- macro _truncates_known(changes, feed) -%}
    select
        coalesce(max(_load_id), 0) as last_truncate,
        {%- if feed.has_generations %}
        count_if(_order.position = 0 and not array_contains(_after_reloads, _load_id)) as unknown_reloads
        {%- else %}
        0 as unknown_reloads
        {%- endif %}

    from {{ changes }}

    where
        _is_delete
        and _op = 'T'
{%- endmacro -%}


{#
    A staging view that was made before its log's first reload orders the changes
    after the reload by their sequence alone.
#}
{%- macro _require_known_reloads(changes, unknown_reloads) -%}
    {%- if unknown_reloads | int > 0 -%}
        {%- do exceptions.raise_compiler_error(
            changes ~ " was made before the reload that its log holds. Build it first: "
            ~ "dbt build --select " ~ changes.identifier ~ "+"
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#
    A truncate concerns every key, so that a load with one is late as a whole.
    So it is for a history if it has the time of a known load: of two changes
    of one instant, only the last is a version.
#}
{%- macro _late_loads(changes, table, watermark, is_current) -%}
    with

    known as (

        select
            max(struct(_order.phase, _order.sequence)) as known_until,
            max(_changed_at) as known_at

        from (
            select _order, _changed_at from {{ table }}
            union all
            select _order, _changed_at from {{ changes }} where _is_delete and _load_id <= {{ watermark }}
        )

    )

    select 1

    from {{ changes }}

    cross join known

    where
        _load_id > {{ watermark }}
        and (
            struct(_order.phase, _order.sequence) <= known_until
            {%- if is_current %}
            or _changed_at <= known_at
            {%- endif %}
        )

    limit 1
{%- endmacro -%}


{#
    Deletes in the log, a partition of it, are the tombstones that a change of an
    absent key is compared with; a truncate is one for every key. A history also needs times that
    go on, and re-derives a key that comes back after a delete: its last version's number is not
    among the open ones.
#}
{%- macro _new_and_late_keys(changes, key, table, scope, is_current) -%}
    with

    new_keys as (

        select
            {{ key }},
            min(struct(_order.phase, _order.sequence)) as first_order,
            min(_changed_at) as first_at

        from {{ changes }}

        where _load_id > {{ scope.watermark }}

        group by {{ key }}

    ),

    known as (

        select
            {{ key }},
            struct(_order.phase, _order.sequence) as known_until,
            _changed_at as known_at

        from {{ table }}
        {% if is_current and not scope.truncates %}
        where {{ is_current }}
        {% endif %}
        union all

        select
            {{ key }},
            struct(_order.phase, _order.sequence) as known_until,
            {% if is_current %}timestamp'9999-12-31'{% else %}_changed_at{% endif %} as known_at

        from {{ changes }}

        where
            _is_delete
            and _op <> 'T'
            and _load_id <= {{ scope.watermark }}
        {% if scope.truncates %}
        union all

        select
            {{ key }},
            known_until,
            known_at

        from new_keys

        cross join (
            select
                max(struct(_order.phase, _order.sequence)) as known_until,
                max(_changed_at) as known_at

            from {{ changes }}

            where
                _is_delete
                and _op = 'T'
        )
        {% endif %}
    ),

    newest_known as (

        select
            {{ key }},
            max(known_until) as known_until,
            max_by(known_at, known_until) as known_at

        from known

        left semi join new_keys using ({{ key }})

        group by {{ key }}

    )

    select
        count(*) as new_keys,
        count_if(
            first_order <= known_until
            {%- if is_current %}
            or first_at <= known_at
            {%- endif %}
        ) as late_keys

    from new_keys

    left join newest_known using ({{ key }})
{%- endmacro -%}
