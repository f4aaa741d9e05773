{#
    At any time a key has at most one version, and no version is empty.

    Returns the versions that end at or before their start, or overlap the next one. This
    includes an open version that is not the key's last.

    Arguments
        key (list): the columns that identify a row.
#}
{% test versions_do_not_overlap(model, key) %}

    with

    with_next as (

        select
            *,
            lead(valid_from) over (
                partition by {{ tidemark.quoted(key) }}
                order by valid_from
            ) as next_valid_from

        from {{ model }}

    )

    select
        {{ tidemark.quoted(key) }},
        valid_from,
        valid_to,
        next_valid_from

    from with_next

    where
        valid_to <= valid_from
        or next_valid_from < coalesce(valid_to, timestamp'9999-12-31')

{% endtest %}
