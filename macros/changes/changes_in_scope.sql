{#
    The changes of single keys that a build looks at. A truncate is a delete of
    every key there is: in the changes themselves, and in the table.
#}
{%- macro changes_in_scope(changes, feed, table, scope) -%}

{%- set key = feed.key | join(', ') -%}
{%- set newer = '_load_id > ' ~ scope.watermark -%}
{%- set in_scope = {'in_order': newer, 'nothing': 'false'}.get(scope.kind, 'true') -%}
{%- set order = '_order' -%}
{%- set of_load = ['_load_id', '_landed_at'] + (['_after_reloads'] if feed.has_generations else []) -%}
{%- if scope.until is defined -%}
    {%- set in_scope = '_load_id <= ' ~ scope.until -%}
    {%- set order = order_as_of(feed, scope.until) ~ ' as _order' -%}
{%- endif -%}

select
    {%- for name in feed.columns %}
    `{{ name }}`,
    {%- endfor %}
    {%- if feed.partial %}
    _left_out,
    {%- endif %}
    _op,
    _changed_at,
    {{ order | indent(4) }},
    {{ of_load | join(', ') }}

from {{ changes }}
{% if scope.kind == 'whole_story' %}
left semi join (select {{ key }} from {{ changes }} where {{ newer }}) as touched using ({{ key }})
{% endif %}
where
    _op <> 'T'
    and {{ in_scope }}
{% if scope.truncates %}
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
    truncates.{{ of_load | join(', truncates.') }}

from (
    select {{ key }}
    from {{ changes }}
    where _op <> 'T' and {{ newer if scope.kind == 'whole_story' else in_scope }}
    {%- if scope.kind == 'in_order' %}
    union
    select {{ key }} from {{ table }}
    {%- else %}
    group by {{ key }}
    {%- endif %}
) as every_key

cross join (
    select
        _changed_at,
        {{ order | indent(8) }},
        {{ of_load | join(', ') }}

    from {{ changes }}

    where
        _is_delete
        and _op = 'T'
        and {{ in_scope }}
) as truncates
{% endif %}

{%- endmacro -%}
