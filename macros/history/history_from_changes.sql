{#
    Every version that each key ever had (SCD2), with half-open validity: `valid_from` is
    inclusive, `valid_to` is exclusive.

    On later builds: the versions that the new loads create or change. A key whose new
    changes arrive in order continues from its last version. A key with a late change is
    derived again from all its changes. Versions that are no longer valid become rows with
    `_op = 'gone'`, which the merge deletes.
#}
{%- macro history_from_changes(
    changes,
    feed,
    tracked=none,
    untracked=none,
    column_names={},
    open_end=none,
    show_deletes=false,
    bitemporal=false,
    source_column=none,
    source_values=none,
    before=none,
    before_at=none
) -%}

{%- set of_feeds = tidemark.changes_of_feeds(changes, feed, source_column, source_values, before, before_at) -%}
{%- set changes, feed = of_feeds.changes, of_feeds.feed -%}
{%- set shape = tidemark.history_shape(
    feed, tracked, untracked, column_names, open_end, show_deletes, bitemporal
) -%}
{%- do tidemark.require_merge(
    [shape.names.version_key], delete_condition="DBT_INTERNAL_SOURCE._op = 'gone'"
) -%}
{%- if bitemporal or (feed.feeds or []) | length > 1 -%}
    {%- do tidemark.require_whole_log(feed, 'A bitemporal history' if bitemporal else 'A history of several feeds') -%}
{%- endif -%}
{#- Only the loads record when something was known. The row of a deletion has no values to continue from. -#}
{%- set can_go_on = not bitemporal and not (show_deletes and feed.partial) -%}
{{ tidemark.derived_from(feed, shape.settings, changes, shape.names) }}
{{ tidemark.history_rows(
    changes,
    feed,
    shape,
    tidemark.scope_of_changes(
        changes, feed, this, is_current=shape.names.is_current, can_go_on=can_go_on
    ),
    merges=is_incremental()
) }}
{{ tidemark.note_same_columns(
    changes, feed, shape.names.values() | list + ['_op', '_changed_at', '_order', '_load_id']
) }}

{%- endmacro -%}
