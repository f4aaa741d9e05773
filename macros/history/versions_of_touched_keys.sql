{#
    Every version, old ones and deleted rows included, of the keys that the loads after `since`
    have touched. What a mart adds up of them, it has to add up anew.
#}
{%- macro versions_of_touched_keys(history, changes, key, since) -%}

{%- set is_new = '_load_id > ' ~ since -%}
select versions.*

from {{ history }} as versions

left semi join (select * from {{ changes }} where {{ is_new }}) as news
    on
        {%- for name in key %}
        {% if not loop.first %}and {% endif %}versions.{{ name }} = news.{{ name }}
        {%- endfor %}

union

-- A truncate touches every key.
select versions.*

from {{ history }} as versions

where exists (select 1 from {{ changes }} where _is_delete and _op = 'T' and {{ is_new }})

{%- endmacro -%}
