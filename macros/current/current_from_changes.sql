{#
    The source table as of its last change (SCD1).

    On the first build: the row of every key that is not deleted. Later: what
    the keys of the new loads come to, deletes as rows with `_op = 'D'` that the
    merge turns into deletions.
#}
{%- macro current_from_changes(changes, feed) -%}

{%- do require_merge_key(feed.key) -%}
{%- set scope = scope_of_changes(changes, feed, this) -%}

with

changes as (

    {{ changes_in_scope(changes, feed, this, scope) | indent(4) }}

),

first_copies as (

    {{ first_copies('changes', feed) | indent(4) }}

),

latest as (

    select max_by(struct(*), _order) as change

    from first_copies

    group by {{ feed.key | join(', ') }}

)

select
    {%- for name in feed.columns %}
    change.`{{ name }}`,
    {%- endfor %}
    change._op,
    change._changed_at,
    change._order,
    change._load_id

from latest
{% if not is_incremental() %}
where change._op <> 'D'
{% endif %}

{%- endmacro -%}
