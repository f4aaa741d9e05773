{#
    The source table as of its last change (SCD1).

    On the first build: the row of every key that is not deleted. Later: what
    the keys of the new loads come to, deletes as rows with `_op = 'D'` that the
    merge turns into deletions.
#}
{%- macro current_from_changes(changes, feed) -%}

{%- do tidemark.require_merge(
    feed.key,
    delete_condition="DBT_INTERNAL_SOURCE._op = 'D'",
    not_matched_condition="DBT_INTERNAL_SOURCE._op <> 'D'"
) -%}
{{ tidemark.derived_from(feed) }}
{{ tidemark.current_rows(changes, feed, tidemark.scope_of_changes(changes, feed, this), merges=is_incremental()) }}

{%- endmacro -%}
