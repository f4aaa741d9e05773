{#
    Deduplicate changes. A copy (same key, operation, sequence and row) changes nothing.
    The remaining change takes the first place of its copies by file and position,
    whichever copy arrived first.
#}
{%- macro first_copies(changes, feed, also=[]) -%}
    {%- set same -%}
        {%- for name in feed.columns %}
        `{{ name }}`,
        {%- endfor %}
        {%- for name in (['_left_out'] if feed.partial else []) + also %}
        {{ name }},
        {%- endfor %}
    {%- endset -%}
    select {{- same }}
        _op,
        min_by(_changed_at, _order) as _changed_at,
        min(_order) as _order,
        min_by(_load_id, _order) as _load_id

    from {{ changes }}

    group by {{- same }}
        _op,
        _order.phase,
        _order.sequence
{%- endmacro -%}
