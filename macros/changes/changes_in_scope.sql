{#
    The changes of single keys that a build looks at. A truncate is a delete of
    every key there is: in the changes themselves, and in the table.
#}
{%- macro changes_in_scope(changes, feed, table, scope) -%}

{%- set key = feed.key | join(', ') -%}
{%- set event -%}
    {%- for name in feed.columns %}`{{ name }}`, {% endfor -%}
    _op, _changed_at, _order, _load_id
{%- endset -%}
{%- set newer = '_load_id > ' ~ scope.watermark -%}
{%- set in_scope = {'in_order': newer, 'nothing': 'false'}.get(scope.kind, 'true') -%}

select {{ event }}

from {{ changes }}
{% if scope.kind == 'whole_story' %}
left semi join (select {{ key }} from {{ changes }} where {{ newer }}) as touched using ({{ key }})
{% endif %}
where
    _op <> 'T'
    and {{ in_scope }}
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
    select {{ key }} from {{ changes }} where _op <> 'T' and {{ in_scope }}
    {%- if scope.kind == 'in_order' %}
    union
    select {{ key }} from {{ table }}
    {%- else %}
    group by {{ key }}
    {%- endif %}
) as every_key

cross join {{ changes }} as truncates

where
    truncates._is_delete
    and truncates._op = 'T'
    and {{ in_scope | replace('_load_id', 'truncates._load_id') }}
{% endif %}

{%- endmacro -%}
