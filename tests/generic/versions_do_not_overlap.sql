{#
    At any time a key has one version at most, and every version lasts.

    Returns the versions that end before they begin, or that last into the
    next one; an open version that is not the key's last is one of these.

    Arguments
        key (list): the columns that identify a row.
#}
{% test versions_do_not_overlap(model, key) %}

    with

    with_next as (

        select
            *,
            lead(valid_from) over (
                partition by {{ key | join(', ') }}
                order by valid_from
            ) as next_valid_from

        from {{ model }}

    )

    select
        {{ key | join(', ') }},
        valid_from,
        valid_to,
        next_valid_from

    from with_next

    where
        valid_to <= valid_from
        or next_valid_from < coalesce(valid_to, timestamp'9999-12-31')

{% endtest %}
