{#
    All values of some columns that the log has for the keys changed by the loads after `since`.
    A history may lack some: of two changes with the same time, it keeps only the last.
#}
{%- macro values_of_touched_keys(changes, key, columns, since) -%}

{%- set is_new = '_load_id > ' ~ since -%}
{%- set values = 'known.' ~ columns | join(', known.') -%}
select {{ values }}

from {{ changes }} as known

left semi join (select * from {{ changes }} where {{ is_new }}) as news
    on
        {%- for name in key %}
        {% if not loop.first %}and {% endif %}known.`{{ name }}` = news.`{{ name }}`
        {%- endfor %}

union

-- A truncate touches every key.
select {{ values }}

from {{ changes }} as known

where exists (select 1 from {{ changes }} where _is_delete and _op = 'T' and {{ is_new }})

{%- endmacro -%}
