{#
    Every version that each key ever had (SCD2), valid from (inclusive) to
    (exclusive).

    On a later build: the versions that the new loads make or change. A key whose
    new changes come in order goes on from its last version. One with a late change
    is derived anew, and its versions that no longer hold come as rows with
    `_op = 'gone'`, which the merge turns into deletions.
#}
{%- macro history_from_changes(
    changes,
    feed,
    tracked=none,
    untracked=none,
    column_names={},
    open_end=none,
    show_deletes=false,
    bitemporal=false
) -%}

{%- set shape = tidemark.history_shape(
    feed, tracked, untracked, column_names, open_end, show_deletes, bitemporal
) -%}
{%- do tidemark.require_merge(
    [shape.names.version_key], delete_condition="DBT_INTERNAL_SOURCE._op = 'gone'"
) -%}
{#- What was known when is in the loads; and a deletion's row has no values to go on from. -#}
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

{%- endmacro -%}
