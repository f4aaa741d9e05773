{#
    One row per key: the last of the changes in scope. With `merges`, a deleted key has a row
    too: its delete.
#}
{%- macro current_rows(changes, feed, scope, merges) -%}

{%- set key = tidemark.quoted(feed.key) -%}
{%- set replaces = merges and (scope.late_keys or scope.kind == 'everything') -%}
{%- set cut = tidemark.cut_of(feed) if replaces or not merges -%}
{%- set goes_on = merges and feed.partial and scope.goes_on -%}
{%- set known_columns = (
    tidemark._columns(this) | map('lower') | list
    if goes_on or replaces else []
) -%}
{%- set one_each = scope.one_each and not feed.partial -%}
{%- set last_step = 'whole_rows' if feed.partial else 'first_copies' -%}

with
{{ tidemark.keys_in_scope(feed, scope) }}
changes as (

    {{ tidemark.changes_in_scope(changes, feed, this, scope, cut) | indent(4) }}

),
{% if goes_on %}
{# The values that an update leaves out are in the row that it updates. #}
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
        {% if name | lower in known_columns %}`{{ name }}`{% else %}cast(null as {{ type }}){% endif %},
        {%- endfor %}
        cast(array() as array<string>) as _left_out,
        _op,
        _changed_at,
        _order,
        _load_id

    from {{ this }}

    left semi join {{ scope.new_keys or 'changes' }} as touched using ({{ key }})
    {% if scope.late_keys %}
    left anti join late_keys using ({{ key }})
    {% endif %}
),
{% endif %}
{% if not one_each %}
first_copies as (

    {{ tidemark.first_copies('events' if goes_on else 'changes', feed) | indent(4) }}

),
{% endif %}
{% if feed.partial %}
whole_rows as (

    {{ tidemark.whole_rows('first_copies', feed, per_key=key) | indent(4) }}

),
{% endif %}
{% if one_each %}
latest as (

    select struct(*) as change

    from changes

),
{% else %}
latest as (

    select max_by(struct(*), _order) as change

    from {{ last_step }}

    group by {{ key }}

),
{% endif %}
shaped as (

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
)

select * from shaped
{% if replaces %}
{# Only rows that differ from the table go to the merge: it writes every row, and reads only the table's key. #}
left anti join (
    select * from {{ this }}
    {%- if scope.late_keys %} left semi join late_keys using ({{ key }}){% endif %}
) as known
    on
        {%- for name in feed.key %}
        {% if not loop.first %}and {% endif %}shaped.`{{ name }}` = known.`{{ name }}`
        {%- endfor %}
        {%- for name in feed.kept.keys() | list + ['_op', '_changed_at', '_order', '_load_id'] if name not in feed.key %}
        and shaped.`{{ name }}` <=> {% if name | lower in known_columns %}known.`{{ name }}`{% else %}null{% endif %}
        {%- endfor %}
{% endif %}

{%- endmacro -%}
