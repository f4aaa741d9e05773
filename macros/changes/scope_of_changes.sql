{#
    Decide which changes a build of a table must read, before its SQL is written. The SQL
    then contains only what this build needs.

    Returns a mapping with `watermark`, the newest load that the table has applied (in a table of
    several feeds with a source column, an expression that gives it for each feed);
    `truncates`, whether the changes in scope may include a truncate; for a table that others append
    to, `newest`, the newest load to read; and `kind`:
      everything  first build, full refresh, or a late truncate
      nothing     no newer load
      newer       the newer loads, and all changes of the keys that are late
    If the kind is `everything` on a first build, also `one_each`: no key has two changes, so
    there is nothing to derive. If the kind is `newer`, also `goes_on`: whether keys that are
    not late continue from the rows in the table. If there are late or settled keys, also
    `new_keys`, a temporary view of the keys in the newer loads, and whether it contains
      late_keys     keys with a change that is late, or ties with a known one
      settled_keys  keys that the newer loads do not change, because a newer change
                    of the key is known (current tables only)

    The view is computed once and kept in Spark's cache, because the build joins with it
    several times. `release_new_keys` removes it after the build. Without such keys it is removed
    at once. Most builds have no late change and need no view.

    The watermark is read from the table itself, so a restored or cloned table continues from
    its own content. It may lag behind, since a load that changed nothing leaves no trace.
    Applying a load again changes nothing.
#}
{%- macro scope_of_changes(changes, feed, table, is_current=none, can_go_on=true) -%}

    {%- if not execute or not is_incremental() -%}
        {%- set scope = {'kind': 'everything', 'watermark': 0, 'truncates': true} -%}
        {#- In a unit test the changes are given rows, not a relation. -#}
        {%- if execute and '__dbt__cte__' not in changes | string and tidemark._are_built(changes, feed) -%}
            {%- for log in feed.logs or [] if adapter.newest_rows is defined -%}
                {%- do tidemark.generate_code_for((adapter.newest_rows(log) or {}).get('row_count')) -%}
            {%- endfor -%}
            {%- set known = tidemark._told_by_log('first_changes', changes, feed)
                or tidemark._of_changes(tidemark._first_changes(changes, feed), feed) -%}
            {%- do tidemark._require_known_reloads(changes, feed, known['unknown_reloads']) -%}
            {%- do tidemark._require_keys(changes, feed, known['without_key']) -%}
            {%- do scope.update({
                'truncates': known['truncates'] | int > 0,
                'newest': known['newest'] if feed.table else none,
                'one_each': known['changes'] | int == known['changed_keys'] | int,
            }) -%}
        {%- endif -%}
        {%- do return(scope) -%}
    {%- endif -%}

    {#- Delta's log may have the watermark, so that no query is needed. It does not have one for each source. -#}
    {%- set newest = adapter.newest_rows(table) if adapter.newest_rows is defined and not feed.source_column else none -%}
    {%- set known = [newest] if newest else run_query(tidemark._applied(feed, table)).rows -%}
    {%- set watermark = tidemark._watermark(feed, known) -%}
    {%- set row_count = known | sum(attribute='row_count') | int -%}
    {%- do tidemark.use_deletion_vectors(table, row_count) -%}
    {#- A merge only compares the rows of the table. -#}
    {%- do tidemark.generate_code_for(row_count // 10) -%}

    {#- In epochs, sequences start again, so bounds would make keys late that are not. -#}
    {%- set bounds = newest if newest and newest.known_until and newest.known_at and not feed.epochs else none -%}
    {%- set new = tidemark._told_by_log('new_changes', changes, feed, table, watermark) if bounds -%}
    {%- if not new -%}
        {%- set query = tidemark._new_changes(changes, feed, table, watermark, bounds) -%}
        {%- set new = tidemark._of_changes(query, feed) if bounds else run_query(query).rows[0] -%}
    {%- endif -%}
    {%- do tidemark._require_known_reloads(changes, feed, new['unknown_reloads']) -%}
    {%- set late = new['late'] if is_current is none else new['late_or_not_later'] -%}
    {%- set scope = {
        'kind': 'everything',
        'watermark': watermark,
        'newest': new['newest'] if feed.table else none,
        'truncates': (new['truncates'] or 0) | int > 0,
    } -%}
    {%- set in_order = can_go_on and late | int == 0 -%}

    {%- if (new['new_truncates'] or 0) | int > 0 -%}
        {#- A reload moves even known changes in the order. -#}
        {%- if in_order and not feed.has_generations -%}
            {%- do scope.update({'kind': 'newer', 'goes_on': true}) -%}
        {%- endif -%}
        {%- do return(scope) -%}
    {%- endif -%}
    {%- if in_order or new['of_keys'] | int == 0 -%}
        {%- set has_new = new['of_keys'] | int > 0 -%}
        {%- do scope.update({
            'kind': 'newer' if has_new else 'nothing',
            'goes_on': has_new,
            'truncates': false,
        }) -%}
        {%- do return(scope) -%}
    {%- endif -%}

    {%- set keys = tidemark._new_keys(table) -%}
    {%- do run_query('uncache table if exists ' ~ keys) -%}
    {%- do run_query(
        'create or replace temporary view ' ~ keys ~ ' as '
        ~ tidemark._judged_keys(changes, feed, table, scope, is_current, can_go_on)
    ) -%}
    {%- do run_query('cache lazy table ' ~ keys) -%}
    {%- set found = run_query(
        'select count_if(is_late) as late_keys, count_if(is_settled) as settled_keys from ' ~ keys
    ).rows[0] -%}
    {%- set has_late_keys = found['late_keys'] | int > 0 -%}
    {%- set has_settled_keys = found['settled_keys'] | int > 0 -%}
    {%- do scope.update({
        'kind': 'newer',
        'goes_on': can_go_on,
        'truncates': scope.truncates and has_late_keys,
    }) -%}
    {%- if has_late_keys or has_settled_keys -%}
        {%- do scope.update(
            {'new_keys': keys, 'late_keys': has_late_keys, 'settled_keys': has_settled_keys}
        ) -%}
    {%- else -%}
        {%- do run_query('uncache table if exists ' ~ keys) -%}
    {%- endif -%}
    {%- do return(scope) -%}

{%- endmacro -%}


{#- Whether the staging models are there. `dbt docs` may run before the first build. -#}
{%- macro _are_built(changes, feed) -%}
    {%- for relation in feed.relations or [changes] if not load_relation(relation) -%}
        {%- do return(false) -%}
    {%- endfor -%}
    {%- do return(true) -%}
{%- endmacro -%}


{#-
    The row that a query of the changes would give, if the log tells it without Spark. The changes must be
    those that `typed_changes` reads from it, and nothing else.
-#}
{%- macro _told_by_log(method, changes, feed) -%}
    {%- if adapter[method] is not defined -%}{%- do return(none) -%}{%- endif -%}
    {%- set told = adapter[method](feed, *varargs) -%}
    {%- if not told or not adapter.is_view_of(changes, tidemark.typed_changes(feed.logs[0], feed)) -%}
        {%- do return(none) -%}
    {%- endif -%}
    {%- do return(told) -%}
{%- endmacro -%}


{#-
    The row of a query of the changes alone. The models of a feed ask the same, so only the first of
    them runs the query.
-#}
{%- macro _of_changes(sql, feed) -%}
    {%- if adapter.ask_once is defined -%}{%- do return(adapter.ask_once(sql, feed.logs or []).rows[0]) -%}{%- endif -%}
    {%- do return(run_query(sql).rows[0]) -%}
{%- endmacro -%}


{%- macro _applied(feed, table) -%}
    select{% if feed.source_column %} {{ feed.source_column }} as source,{% endif %} coalesce(max(_load_id), -1) as applied, count(*) as row_count from {{ table }}
    {%- if feed.source_column %} group by {{ feed.source_column }}{% endif %}
{%- endmacro -%}


{#- Feeds with format: table number their loads by themselves, so each feed has a watermark of its own. -#}
{%- macro _watermark(feed, known) -%}
    {%- if not feed.source_column -%}{%- do return(known[0]['applied'] | int) -%}{%- endif -%}
    {%- set applied = [] -%}
    {%- for row in known if row['source'] in feed.source_values -%}
        {%- do applied.append("when '" ~ row['source'] ~ "' then " ~ row['applied'] | int) -%}
    {%- endfor -%}
    {%- do return(
        'case ' ~ feed.source_column ~ ' ' ~ applied | join(' ') ~ ' else -1 end' if applied else -1
    ) -%}
{%- endmacro -%}


{#-
    Others append to a table while a build runs. What comes after this question is left to the next
    build, because nobody has asked whether it is late.
-#}
{%- macro _newest(feed) -%}
    {%- if feed.table %},
        max(_load_id) as newest
    {%- endif -%}
{%- endmacro -%}


{#- A truncate has no key, so with a truncate there are more changes than keys. -#}
{%- macro _first_changes(changes, feed) -%}
    select
        count(*) as changes,
        count(distinct {{ tidemark.quoted(feed.key) }}) as changed_keys,
        count_if(_op = 'T') as truncates,
        count_if(_op <> 'T' and ({{ tidemark._is_null(feed.key) }})) as without_key,
        {{ tidemark._unknown_reloads(feed) }} as unknown_reloads{{ tidemark._newest(feed) }}

    from {{ changes }}
{%- endmacro -%}


{#
    Landing refuses changes without a key, so such changes landed when the feed had another key. Deletes may
    have only that one. Without them, the rows that they deleted would come back.
#}
{%- macro _require_keys(changes, feed, without_key) -%}
    {%- if without_key | int > 0 -%}
        {%- do exceptions.raise_compiler_error(
            "In " ~ (feed.relations or [changes]) | join(' or ') ~ ", " ~ without_key ~ " changes do not have the key "
            ~ feed.key | join(', ') ~ ": they landed when the key was another one. Without them, rows that were "
            ~ "deleted would come back, so nothing was written. If the staging view is older than the new key, rebuild "
            ~ "it, too (--select stg_...+). Otherwise revert the change, or read the files again with the new "
            ~ "key: drop the change log and its tables (tidemark sql 'drop table ...'), then tidemark replay --all ..."
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{%- macro _unknown_reloads(feed) -%}
    {%- if feed.has_generations -%}
    count_if(
        _is_delete
        and _op = 'T'
        and _order.position = 0
        and not array_contains(_after_reloads, _load_id)
    )
    {%- else -%}
    0
    {%- endif -%}
{%- endmacro -%}


{#
    A staging view that was created before its log's first reload orders the changes
    after the reload only by their sequence.
#}
{%- macro _require_known_reloads(changes, feed, unknown_reloads) -%}
    {%- if unknown_reloads | int > 0 -%}
        {%- set relations = feed.relations or [changes] -%}
        {%- do exceptions.raise_compiler_error(
            relations | join(' or ') ~ " was created before the reload that is now in its log. Rebuild it first: "
            ~ "dbt build --select " ~ relations | map(attribute='identifier') | join('+ ') ~ "+"
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#
    The number of changes in the newer loads, and how many of them are not newer than the newest known
    change of any key. If there are none, no key has a late change, and the build need not check key by
    key. In a history, a change with the time of a known change is also late (`late_or_not_later`): of
    two changes with the same time, only the last is a version. If there are newer loads, also the
    numbers of all truncates and of the new ones. With a source column, each feed is compared only with
    itself.

    `bounds` are those of the table's rows, if Delta's log has them, so that the table is not read. A
    bound that is higher than the rows only makes a build check key by key.
#}
{%- macro _new_changes(changes, feed, table, watermark, bounds) -%}
    {%- set source = feed.source_column -%}
    {%- set of_source = source ~ ',' if source else '' -%}
    with

    known_rows as (

        select {{ of_source }}
            {{ bounds.known_until if bounds else 'max(struct(_order.phase, _order.sequence))' }} as known_until,
            {{ bounds.known_at if bounds else 'max(_changed_at)' }} as known_at,
            0 as truncates,
            0 as new_truncates,
            0 as unknown_reloads
        {% if not bounds %}
        from {{ table }}
        {% endif %}
        {% if source %}
        group by {{ source }}
        {% endif %}
    ),

    {# The deletes in the log, which are a partition of it. #}
    known_deletes as (

        select {{ of_source }}
            max(if(_load_id <= {{ watermark }}, struct(_order.phase, _order.sequence), null)) as known_until,
            max(if(_load_id <= {{ watermark }}, _changed_at, null)) as known_at,
            count_if(_op = 'T') as truncates,
            count_if(_op = 'T' and _load_id > {{ watermark }}) as new_truncates,
            {{ tidemark._unknown_reloads(feed) | indent(12) }} as unknown_reloads

        from {{ changes }}

        where _is_delete
        {% if source %}
        group by {{ source }}
        {% endif %}
    ),

    known as (

        select {{ of_source }}
            max(known_until) as known_until,
            max(known_at) as known_at,
            max(truncates) as truncates,
            max(new_truncates) as new_truncates,
            max(unknown_reloads) as unknown_reloads

        from (
            select * from known_rows
            union all
            select * from known_deletes
        )
        {% if source %}
        group by {{ source }}
        {% endif %}
    )

    select
        count_if(_op <> 'T') as of_keys,
        count_if(struct(_order.phase, _order.sequence) <= known_until) as late,
        count_if(
            struct(_order.phase, _order.sequence) <= known_until
            or _changed_at <= known_at
        ) as late_or_not_later,
        max(truncates) as truncates,
        max(new_truncates) as new_truncates,
        max(unknown_reloads) as unknown_reloads{{ tidemark._newest(feed) }}

    from {{ changes }}

    {% if source %}left join known using ({{ source }}){% else %}cross join known{% endif %}

    where _load_id > {{ watermark }}
{%- endmacro -%}


{#
    The keys of the newer loads, and whether they are late. In a table that cannot continue from its
    own rows, every key is late.

    The deletes in the log, which are a partition of it, are the tombstones: a change of an absent key
    is compared with them. A truncate is a tombstone for every key. In a history, times must also move
    forward. A current table shows only the last change. It needs no older ones, unless the last ones
    tie (a copy may have moved the known one forward) or leave columns out. Clocks go back, so the newest
    time of a key may be that of an older change.
#}
{%- macro _judged_keys(changes, feed, table, scope, is_current, can_go_on) -%}
    {%- set key = tidemark.quoted(feed.key) -%}
    {%- set shows_the_last = not is_current and not feed.partial -%}
    {%- if not can_go_on -%}
    select distinct
        {{ key }},
        true as is_late,
        false as is_settled

    from {{ changes }}

    where
        _load_id > {{ scope.watermark }}
        and _op <> 'T'
    {%- else -%}
    {%- set new_keys -%}
        select
            {{ key }},
            {%- if shows_the_last %}
            max(struct(_order.phase, _order.sequence)) as order_that_counts
            {%- else %}
            min(struct(_order.phase, _order.sequence)) as order_that_counts,
            min(_changed_at) as first_at
            {%- endif %}

        from {{ changes }}

        where
            _load_id > {{ scope.watermark }}
            and _op <> 'T'

        group by {{ key }}
    {%- endset -%}
    {#- Not with CTEs: a query with CTEs of its own would then not use the rows in Spark's cache. -#}
    select
        {{ key }},
        {%- if shows_the_last %}
        coalesce(order_that_counts = newest_known.known_until, false) as is_late,
        coalesce(order_that_counts < newest_known.known_until, false) as is_settled
        {%- else %}
        coalesce(
            order_that_counts <= newest_known.known_until
            {%- if is_current %}
            or first_at <= newest_known.known_at
            {%- endif %},
            false
        ) as is_late,
        false as is_settled
        {%- endif %}

    from (
        {{ new_keys }}
    ) as new_keys

    left join (
        select
            {{ key }},
            max(known_until) as known_until,
            max(known_at) as known_at

        from (
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
                _changed_at as known_at

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

            from (
                {{ new_keys }}
            ) as new_keys

            {% if feed.source_column %}inner{% else %}cross{% endif %} join (
                select
                    {%- if feed.source_column %}
                    {{ feed.source_column }},
                    {%- endif %}
                    max(struct(_order.phase, _order.sequence)) as known_until,
                    max(_changed_at) as known_at

                from {{ changes }}

                where
                    _is_delete
                    and _op = 'T'
                {%- if feed.source_column %}

                group by {{ feed.source_column }}
                {%- endif %}
            )
            {%- if feed.source_column %} using ({{ feed.source_column }}){% endif %}
            {% endif %}
        ) as known

        left semi join (
            {{ new_keys }}
        ) as new_keys using ({{ key }})

        group by {{ key }}
    ) as newest_known using ({{ key }})
    {%- endif -%}
{%- endmacro -%}
