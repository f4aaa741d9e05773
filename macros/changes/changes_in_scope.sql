{#
    The changes of single keys that a build reads. A truncate becomes a delete of every
    existing key of its feed: the keys in the changes themselves, and the keys in the table. If there
    are truncates, `_is_truncate` tells these deletes from others: that of a deleted key is no change.

    The CTEs that `keys_in_scope` returns must come before it.

    With the `cut` of a log, `_kept_from` is the place in the order of the last old change of the
    key. A change that came later, and belongs before it or at the same place, is left out, because
    the log no longer has the changes around it. Landing refuses such changes, apart from the rows of
    initial loads.
#}
{%- macro changes_in_scope(changes, feed, table, scope, cut=none) -%}

{%- set key = tidemark.quoted(feed.key) -%}
{%- set known = '_load_id <= ' ~ scope.newest if scope.newest is defined and scope.newest is not none else 'true' -%}
{%- set newer = '_load_id > ' ~ scope.watermark ~ ('' if known == 'true' else ' and ' ~ known) -%}
{%- set in_scope = {'newer': newer, 'nothing': 'false'}.get(scope.kind, known) -%}
{%- set order = '_order' -%}
{%- set of_load = ['_load_id', '_landed_at'] + (['_after_reloads'] if feed.has_generations else []) -%}
{%- if scope.until is defined -%}
    {%- set in_scope = '_load_id <= ' ~ scope.until -%}
    {%- set order = tidemark.order_as_of(feed, scope.until) ~ ' as _order' -%}
{%- endif -%}
{%- set columns -%}
    {%- for name in feed.columns %}
    `{{ name }}`,
    {%- endfor %}
    {%- if feed.partial %}
    _left_out,
    {%- endif %}
    _op,
    _changed_at,
    {{ order | indent(4) }},
    {%- if scope.truncates %}
    _op = 'T' as _is_truncate,
    {%- endif %}
    {{ of_load | join(', ') }}
{%- endset -%}
{% if cut %}
select * from (
select
    *,
    max(if(
        {{ cut.is_old }}{% if scope.truncates %} and not (_is_truncate and _op_before <=> 'D'){% endif %},
        struct(_order.phase, _order.sequence),
        null
    )) over (partition by {{ key }}) as _kept_from

from (
{% if scope.truncates %}
select
    *,
    lag(_op) over (partition by {{ key }} order by _order) as _op_before

from (
{% endif %}
{% endif %}
select
    {{- columns }}

from {{ changes }}
{% if scope.settled_keys %}
left anti join settled_keys using ({{ key }})
{% endif %}
where
    _op <> 'T'
    and {{ in_scope }}
{% if scope.late_keys %}
union all

select
    {{- columns }}

from {{ changes }}

left semi join late_keys using ({{ key }})

where
    _op <> 'T'
    and _load_id <= {{ scope.watermark }}
{% endif %}
{%- if scope.truncates %}
union all

select
    {%- for name, type in feed.columns.items() %}
    {% if name in feed.key %}every_key.`{{ name }}`{% else %}cast(null as {{ type }}){% endif %},
    {%- endfor %}
    {%- if feed.partial %}
    cast(array() as array<string>) as _left_out,
    {%- endif %}
    'D' as _op,
    truncates._changed_at,
    truncates._order,
    true as _is_truncate,
    truncates.{{ of_load | join(', truncates.') }}

from (
    {%- if scope.late_keys %}
    select {{ key }} from late_keys
    {%- elif scope.kind == 'newer' %}
    select {{ key }} from {{ changes }} where _op <> 'T' and {{ newer }}
    union
    select {{ key }} from {{ table }}
    {%- else %}
    select {{ key }} from {{ changes }} where _op <> 'T' and {{ in_scope }} group by {{ key }}
    {%- endif %}
) as every_key

{% if feed.source_column %}inner{% else %}cross{% endif %} join (
    select
        {%- if feed.source_column %}
        {{ feed.source_column }},
        {%- endif %}
        _changed_at,
        {{ order | indent(8) }},
        {{ of_load | join(', ') }}

    from {{ changes }}

    where
        _is_delete
        and _op = 'T'
        and {{ known if scope.late_keys else in_scope }}
) as truncates
{%- if feed.source_column %}
    on every_key.{{ feed.source_column }} = truncates.{{ feed.source_column }}
{%- endif %}
{% endif %}
{%- if cut %}
{{ ')))' if scope.truncates else '))' }}

where
    _kept_from is null
    or _load_id <= {{ cut.load_id }}
    or struct(_order.phase, _order.sequence) > _kept_from
{% endif %}

{%- endmacro -%}
