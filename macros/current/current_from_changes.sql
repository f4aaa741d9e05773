{#
    The source table as of its last change (SCD1).

    On the first build: one row for every key that is not deleted. On later builds: the new
    rows of the keys in the new loads. A deleted key is a row with `_op = 'D'`, which the
    merge deletes.
#}
{%- macro current_from_changes(
    changes, feed, source_column=none, source_values=none, before=none, before_at=none
) -%}

{%- set of_feeds = tidemark.changes_of_feeds(changes, feed, source_column, source_values, before, before_at) -%}
{%- set changes, feed = of_feeds.changes, of_feeds.feed -%}
{%- do tidemark.require_merge(
    feed.key,
    delete_condition="DBT_INTERNAL_SOURCE._op = 'D'",
    not_matched_condition="DBT_INTERNAL_SOURCE._op <> 'D'"
) -%}
{{ tidemark.derived_from(feed) }}
{{ tidemark.current_rows(changes, feed, tidemark.scope_of_changes(changes, feed, this), merges=is_incremental()) }}
{{ tidemark.note_same_columns(changes, feed, ['_op', '_changed_at', '_order', '_load_id']) }}

{%- endmacro -%}
