{#
    The source table as of its last change (SCD1).

    On the first build: the row of every key that is not deleted. Later: what
    the keys of the new loads come to, deletes as rows with `_op = 'D'` that the
    merge turns into deletions.
#}
{%- macro current_from_changes(changes, feed) -%}

{%- do require_unique_key(feed.key) -%}
{{ derived_from(feed) }}
{{ current_rows(changes, feed, scope_of_changes(changes, feed, this), merges=is_incremental()) }}

{%- endmacro -%}
