{#
    The keys of the newer loads that do not simply go on from what is known of them, as CTEs:
    `late_keys`, all of whose changes are read, and `settled_keys`, none of whose are. Empty for
    a build without such keys.
#}
{%- macro keys_in_scope(feed, scope) -%}
{%- for name in ('late', 'settled') if scope[name ~ '_keys'] %}
{{ name }}_keys as (

    select {{ feed.key | join(', ') }} from {{ scope.new_keys }} where is_{{ name }}

),
{% endfor %}
{%- endmacro -%}
