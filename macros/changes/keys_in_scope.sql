{#
    The keys of the newer loads that do not simply continue from their known changes, as CTEs.
    `late_keys`: the build reads all their changes. `settled_keys`: it reads none of them. Empty
    for a build without such keys.
#}
{%- macro keys_in_scope(feed, scope) -%}
{%- for name in ('late', 'settled') if scope[name ~ '_keys'] %}
{{ name }}_keys as (

    select {{ tidemark.quoted(feed.key) }} from {{ scope.new_keys }} where is_{{ name }}

),
{% endfor %}
{%- endmacro -%}
