{#
    Up to where the change log of a feed was cut (`keep_changes`). None for a log that has all
    changes.

    Returns a mapping with `before`, the time; `load_id`, the newest load when the
    log was cut; `is_old`, an SQL condition on a change: it is from before the cut. Of the old
    changes, the log has only the last one of each key, and what that one needs.
#}
{%- macro cut_of(feed) -%}
    {%- for log in (feed.logs or []) if execute -%}
        {%- set told = tidemark._properties(log).get('tidemark.cut') -%}
        {%- if told -%}
            {%- set cut = fromjson(told) -%}
            {%- do return(tidemark._cut(cut.before, cut.load_id, cut.by)) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(none) -%}
{%- endmacro -%}


{#- A change that came later is never old: it is late, and finds its place after the last old one. -#}
{%- macro _cut(before, load_id, by) -%}
    {%- set at = '_order.file_at' if by == 'file' else '_changed_at' -%}
    {%- do return({
        'before': before,
        'load_id': load_id | int,
        'is_old': at ~ " < timestamp'" ~ before ~ "' and _load_id <= " ~ load_id,
    }) -%}
{%- endmacro -%}
