{#
    Delete the changes from before a time that nothing needs any more from a feed's log. Of each key
    the last of the old changes stays. If updates leave columns out, so do the changes before it,
    back to the last one with all columns. Truncates stay, and with `keeps_load` the rows of the last
    full load, with which landing compares the load files of a task.

    First the cut is noted in the log, so that builds take it into account even if this stops in
    between. `tidemark maintain` calls it, after everything was built from the log.
#}
{%- macro cut_log(source_name, table_name, before, load_id, by, at, keeps_load) -%}
    {%- set feed = tidemark.feed(source_name, table_name) -%}
    {%- set log = feed.logs[0] -%}
    {%- set last = tidemark.cut_of(feed) -%}
    {%- if last -%}
        {#- Otherwise these would count as old changes from now on. -#}
        {%- do tidemark._delete_from_log(log, tidemark._left_out_by(feed, log, last)) -%}
    {%- endif -%}
    {%- set cut = tidemark._cut(before, load_id, by) -%}
    {%- set found = run_query(tidemark._last_old_change(feed, log, cut)).rows[0] -%}
    {%- set told = {'at': at, 'before': before, 'by': by, 'load_id': load_id} -%}
    {%- if found['position'] is not none -%}
        {%- do told.update({'last': {'load_id': found['load_id'] | int, 'position': found['position'] | int}}) -%}
    {%- endif -%}
    {%- set noted = tojson(told, sort_keys=true) -%}
    {%- do tidemark.set_properties(log, {'tidemark.cut': noted}) -%}
    {%- do tidemark._delete_from_log(
        log, tidemark._old_changes(feed, log, cut, keeps_load)
    ) -%}
{%- endmacro -%}


{#-
    Where the old change with the highest place in the order is. Landing compares new changes with it,
    so that it need not read all old ones. Not its file: Spark hides properties with certain words.
-#}
{%- macro _last_old_change(feed, log, cut) -%}
    select last.*
    from (
        select max_by(
            struct(_load_id as load_id, _order.position as position), struct(_order.phase, _order.sequence)
        ) as last

        from ({{ tidemark.typed_changes(log, feed) }})

        where {{ cut.is_old }}
    )
{%- endmacro -%}


{#- Delta cannot merge from a query with CTEs, so this is a view. -#}
{%- macro _delete_from_log(log, rows) -%}
    {%- set view = 'to_delete_from_' ~ log.identifier -%}
    {%- do run_query('create or replace temporary view ' ~ view ~ ' as ' ~ rows) -%}
    {%- set same = ['log.' ~ tidemark.file_column() ~ ' = gone._file'] -%}
    {%- for name in ['_load_id', '_position', '_op'] -%}
        {%- do same.append('log.' ~ name ~ ' = gone.' ~ name) -%}
    {%- endfor -%}
    {%- do run_query(
        'merge into ' ~ log ~ ' as log using ' ~ view ~ ' as gone on ' ~ same | join(' and ') ~ ' when matched then delete'
    ) -%}
    {%- do run_query('drop view ' ~ view) -%}
{%- endmacro -%}


{#- The changes that builds leave out because of the last cut. -#}
{%- macro _left_out_by(feed, log, last) -%}
    {%- set place = '_load_id, _order.file as _file, _order.position as _position, _op' -%}
    with

    changes as (

        {{ tidemark.typed_changes(log, feed) | indent(8) }}

    ),

    that_count as (

        {{ tidemark.changes_in_scope('changes', feed, none, {'kind': 'everything', 'watermark': 0, 'truncates': true}, last) | indent(8) }}

    )

    select {{ place }}
    from changes
    where
        _op <> 'T'
        and _load_id > {{ last.load_id }}

    except

    select {{ place }} from that_count
{%- endmacro -%}


{#- The rows of the log to delete. -#}
{%- macro _old_changes(feed, log, cut, keeps_load) -%}
    {%- set key = tidemark.quoted(feed.key) -%}
    with

    changes as (

        {{ tidemark.typed_changes(log, feed) | indent(8) }}

    ),

    changes_of_keys as (

        select * from changes where _op <> 'T'

    ),

    last_old as (

        select
            {{ key }},
            max(struct(_order.phase, _order.sequence)) as kept_from

        from changes_of_keys

        where
            {{ cut.is_old }}
            {%- if feed.partial %}
            and (_op = 'D' or size(_left_out) = 0)
            {%- endif %}

        group by {{ key }}

    )

    select
        _load_id,
        _order.file as _file,
        _order.position as _position,
        _op

    from changes_of_keys

    inner join last_old using ({{ key }})

    where
        struct(_order.phase, _order.sequence) < kept_from
        {%- if keeps_load %}
        and (
            _op <> 'R'
            or _order.file_at < (
                select max(_order.file_at) from changes where _op = 'T' and _order.position = 0
            )
        )
        {%- endif %}
{%- endmacro -%}
