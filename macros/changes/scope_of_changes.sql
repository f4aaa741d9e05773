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
        {%- do return(
            {'kind': 'everything', 'watermark': 0, 'truncates': true, 'ever_truncated': true}
        ) -%}
    {%- endif -%}

    {%- set loads = run_query(_loads_known(changes, table)) -%}
    {%- set watermark = loads.columns['applied'].values()[0] | int -%}
    {%- set last_truncate = loads.columns['last_truncate'].values()[0] | int -%}
    {%- set ever_truncated = last_truncate > 0 -%}
    {%- set scope = {
        'kind': 'everything',
        'watermark': watermark,
        'truncates': ever_truncated,
        'ever_truncated': ever_truncated,
    } -%}
    {%- if loads.columns['landed'].values()[0] | int <= watermark -%}
        {%- do scope.update({'kind': 'nothing', 'truncates': false}) -%}
        {%- do return(scope) -%}
    {%- endif -%}

    {%- if last_truncate > watermark -%}
        {#- Of a reload not even the changes that are known stay where they are in the order. -#}
        {%- if can_go_on and not feed.has_generations
            and run_query(_late_loads(changes, table, watermark, is_current)).rows | length == 0 -%}
            {%- do scope.update({'kind': 'in_order'}) -%}
        {%- endif -%}
    {%- elif can_go_on
        and run_query(_late_keys(changes, feed.key | join(', '), table, scope, is_current)).rows | length == 0 -%}
        {%- do scope.update({'kind': 'in_order', 'truncates': false}) -%}
    {%- else -%}
        {%- do scope.update({'kind': 'whole_story'}) -%}
    {%- endif -%}
    {%- do return(scope) -%}

{%- endmacro -%}


{%- macro _loads_known(changes, table) -%}
    select
        (select coalesce(max(_load_id), 0) from {{ table }}) as applied,
        (select coalesce(max(_load_id), 0) from {{ changes }}) as landed,
        (
            select coalesce(max(_load_id), 0)
            from {{ changes }}
            where _is_delete and _op = 'T'
        ) as last_truncate
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
{%- macro _late_keys(changes, key, table, scope, is_current) -%}
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

    select 1

    from newest_known

    inner join new_keys using ({{ key }})

    where
        first_order <= known_until
        {%- if is_current %}
        or first_at <= known_at
        {%- endif %}

    limit 1
{%- endmacro -%}
