{#
    The source table (SCD1) as it was known after a load: what came later counts
    as not known, whatever its time. From the log, so that it works for every load.
#}
{%- macro current_as_of_load(changes, feed, load_id) -%}
{{ tidemark.current_rows(changes, feed, tidemark.scope_until(load_id), merges=false) }}
{%- endmacro -%}
