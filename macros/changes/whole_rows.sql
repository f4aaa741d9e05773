{#
    Fill in the values that an update leaves out, from the change before it. Nothing is
    carried over a delete. A value that no earlier change has is NULL: the log may start
    late.

    Only for feeds with partial rows. See `_partial_rows` in feeds/feed.sql.
#}
{%- macro whole_rows(changes, feed, per_key, also=[]) -%}
    select
        {%- for name in feed.columns %}
        {%- if name in feed.partial %}
        (
            last(
                if(
                    _op = 'D' or array_contains(_left_out, '{{ name }}'),
                    null,
                    struct(`{{ name }}` as given)
                ),
                true
            ) over (partition by {{ per_key }}, _deletes order by _order)
        ).given as `{{ name }}`,
        {%- else %}
        `{{ name }}`,
        {%- endif %}
        {%- endfor %}
        {%- for name in also %}
        {{ name }},
        {%- endfor %}
        _op,
        _changed_at,
        _order,
        _load_id

    from (
        select
            *,
            count_if(_op = 'D') over (partition by {{ per_key }} order by _order) as _deletes

        from {{ changes }}
    )
{%- endmacro -%}
