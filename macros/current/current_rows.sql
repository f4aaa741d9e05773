{#
    The rows that the changes in scope come to. With `merges`, the row of a deleted
    key is its delete.
#}
{%- macro current_rows(changes, feed, scope, merges) -%}

{%- set key = feed.key | join(', ') -%}
{%- set known_columns = (
    adapter.get_columns_in_relation(this) | map(attribute='name') | list
    if feed.partial and scope.kind == 'in_order' else []
) -%}
{%- set last_step = 'whole_rows' if feed.partial else 'first_copies' -%}

with

changes as (

    {{ changes_in_scope(changes, feed, this, scope) | indent(4) }}

),
{% if known_columns %}
{# What an update leaves out is in the row that it updates. #}
events as (

    select
        {%- for name in feed.columns %}
        `{{ name }}`,
        {%- endfor %}
        _left_out,
        _op,
        _changed_at,
        _order,
        _load_id

    from changes

    union all

    select
        {%- for name, type in feed.columns.items() %}
        {% if name in known_columns %}`{{ name }}`{% else %}cast(null as {{ type }}){% endif %},
        {%- endfor %}
        cast(array() as array<string>) as _left_out,
        _op,
        _changed_at,
        _order,
        _load_id

    from {{ this }}

    left semi join changes using ({{ key }})

),
{% endif %}
first_copies as (

    {{ first_copies('events' if known_columns else 'changes', feed) | indent(4) }}

),
{% if feed.partial %}
whole_rows as (

    {{ whole_rows('first_copies', feed, per_key=key) | indent(4) }}

),
{% endif %}
latest as (

    select max_by(struct(*), _order) as change

    from {{ last_step }}

    group by {{ key }}

)

select
    {%- for name in feed.kept %}
    change.`{{ name }}`,
    {%- endfor %}
    change._op,
    change._changed_at,
    change._order,
    change._load_id

from latest
{% if not merges %}
where change._op <> 'D'
{% endif %}

{%- endmacro -%}
