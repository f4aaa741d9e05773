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
    show_deletes=false,
    source_column=none,
    source_values=none,
    before=none,
    before_at=none
) -%}
{%- set of_feeds = tidemark.changes_of_feeds(changes, feed, source_column, source_values, before, before_at) -%}
{%- set changes, feed = of_feeds.changes, of_feeds.feed -%}
{%- do tidemark.require_whole_log(feed, 'A history as of a load') -%}
{%- set shape = tidemark.history_shape(
    feed, tracked, untracked, column_names, open_end, show_deletes, bitemporal=false
) -%}
{{ tidemark.history_rows(changes, feed, shape, tidemark.scope_until(load_id, feed), merges=false) }}
{%- endmacro -%}
