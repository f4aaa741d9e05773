{#
    The changes from which the state of every key that a new load touches can
    be derived.

    A key whose new changes are all newer than what its table knows needs only
    these (`_is_late` is false). A key with a late change, or one that ties
    with a known one, comes with all the changes that the log has of it: only
    the whole story tells what a late change means. Deletes in the log are the
    tombstones that a change of an absent key is compared with.
#}
{%- macro changes_to_apply(changes, feed, known=none, watermark=0, known_at=none) -%}

{%- set key = feed.key | join(', ') -%}
{%- set columns = [] -%}
{%- for name in feed.columns -%}{%- do columns.append('`' ~ name ~ '`') -%}{%- endfor -%}
{%- set event = (columns + ['_op', '_changed_at', '_order', '_load_id']) | join(', ') -%}

{%- if known is none -%}

    with

    log as (

        select {{ event }} from {{ changes }}

    )

    {{ _per_key('log', feed, event) }}

{%- else -%}

    with

    log as (

        select {{ event }} from {{ changes }}

    ),

    new_changes as (

        select * from log where _load_id > {{ watermark }}

    ),

    new_per_key as (

        {{ _per_key('new_changes', feed, event, known) | indent(8) }}

    ),

    new_keys as (

        select
            {{ key }},
            min(struct(_order.phase, _order.sequence)) as first_order,
            min(_changed_at) as first_at

        from new_per_key

        group by {{ key }}

    ),

    known_keys as (

        select
            {{ key }},
            max(struct(_order.phase, _order.sequence)) as known_until,
            max({{ known_at or 'timestamp\'0001-01-01\'' }}) as known_at

        from {{ known }}

        left semi join new_keys using ({{ key }})

        group by {{ key }}

    ),

    tombstones as (

        select
            {{ key }},
            max(struct(_order.phase, _order.sequence)) as deleted_until

        from log

        left semi join new_keys using ({{ key }})

        where
            _op = 'D'
            and _load_id <= {{ watermark }}

        group by {{ key }}

    ),

    {% if feed.has_truncates %}
    last_truncate as (

        select max(struct(_order.phase, _order.sequence)) as truncated_until

        from log

        where
            _op = 'T'
            and _load_id <= {{ watermark }}

    ),

    {% endif %}
    late_keys as (

        select {{ key }}

        from new_keys

        left join known_keys using ({{ key }})

        left join tombstones using ({{ key }})
        {% if feed.has_truncates %}
        cross join last_truncate
        {% endif %}

        where
            first_order <= known_until
            or first_order <= deleted_until
            {%- if feed.has_truncates %}
            or first_order <= truncated_until
            {%- endif %}
            {%- if known_at %}
            or first_at <= known_at
            {%- endif %}

    ),

    whole_story as (

        {{ _per_key('log', feed, event, only_keys='late_keys') | indent(8) }}

    )

    select
        {{ event }},
        false as _is_late

    from new_per_key

    left anti join late_keys using ({{ key }})

    union all

    select
        {{ event }},
        true as _is_late

    from whole_story

{%- endif -%}

{%- endmacro -%}


{#
    The changes of single keys: a truncate is a delete of every key there is,
    in the rows themselves and in the table that is already `known`.
#}
{%- macro _per_key(rows, feed, event, known=none, only_keys=none) -%}
{%- set key = feed.key | join(', ') -%}
select {{ event }}

from {{ rows }}
{% if only_keys %}
left semi join {{ only_keys }} using ({{ key }})
{% endif %}
where _op <> 'T'
{% if feed.has_truncates %}
union all

select
    {%- for name, type in feed.columns.items() %}
    {% if name in feed.key %}every_key.`{{ name }}`{% else %}cast(null as {{ type }}){% endif %},
    {%- endfor %}
    'D' as _op,
    truncates._changed_at,
    truncates._order,
    truncates._load_id

from (
    {%- if only_keys %}
    select {{ key }} from {{ only_keys }}
    {%- else %}
    select {{ key }} from {{ rows }} where _op <> 'T'
    {%- if known %}
    union
    select {{ key }} from {{ known }}
    {%- else %}
    group by {{ key }}
    {%- endif %}
    {%- endif %}
) as every_key

cross join {{ rows }} as truncates

where truncates._op = 'T'
{% endif %}
{%- endmacro -%}
