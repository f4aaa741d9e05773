{#
    The history (SCD2) as it was known after a load. Changes that landed later count as
    unknown, whatever their time. The rows come from the log, so this works for every load.
    Takes the options of `history_from_changes`.
#}
{%- macro history_as_of_load(
    changes,
    feed,
    load_id,
    tracked=none,
    untracked=none,
    column_names={},
    open_end=none,
    show_deletes=false
) -%}
{%- set shape = tidemark.history_shape(
    feed, tracked, untracked, column_names, open_end, show_deletes, bitemporal=false
) -%}
{{ tidemark.history_rows(changes, feed, shape, tidemark.scope_until(load_id), merges=false) }}
{%- endmacro -%}
