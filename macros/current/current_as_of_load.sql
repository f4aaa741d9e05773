{#
    The source table (SCD1) as it was known after a load. Changes that landed later count as
    unknown, whatever their time. The rows come from the log, so this works for every load.
#}
{%- macro current_as_of_load(changes, feed, load_id) -%}
{{ tidemark.current_rows(changes, feed, tidemark.scope_until(load_id), merges=false) }}
{%- endmacro -%}
