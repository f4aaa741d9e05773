{#
    The source table (SCD1) as it was known after a load. Changes that landed later count as
    unknown, whatever their time. The rows come from the log, so this works for every load.
#}
{%- macro current_as_of_load(
    changes, feed, load_id, source_column=none, source_values=none, before=none, before_at=none
) -%}
{%- set of_feeds = tidemark.changes_of_feeds(changes, feed, source_column, source_values, before, before_at) -%}
{%- set changes, feed = of_feeds.changes, of_feeds.feed -%}
{%- set cut = tidemark.cut_of(feed) -%}
{%- if cut and load_id | int(-1) < cut.load_id -%}
    {%- do tidemark.require_whole_log(feed, 'A table as of load ' ~ load_id) -%}
{%- endif -%}
{{ tidemark.current_rows(changes, feed, tidemark.scope_until(load_id, feed), merges=false) }}
{%- endmacro -%}
