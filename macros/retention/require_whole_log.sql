{#
    Stop what needs all changes of a feed, if its log was cut (`keep_changes`). `what` begins the
    error message.
#}
{%- macro require_whole_log(feed, what) -%}
    {%- set cut = tidemark.cut_of(feed) -%}
    {%- if cut -%}
        {%- do exceptions.raise_compiler_error(
            what ~ " needs all changes of " ~ feed.name ~ ", and its log has only the last change of each key from before "
            ~ cut.before ~ " (keep_changes)."
        ) -%}
    {%- endif -%}
{%- endmacro -%}
