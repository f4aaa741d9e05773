{#
    Whether the log holds a reload. To look for one in every query costs more than
    to look once, when the staging view is made.
#}
{%- macro log_has_reloads(log) -%}
    {%- if not execute or not load_relation(log) -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- do return(run_query(
        "select 1 from " ~ log ~ " where _is_delete and _op = 'T' and _position = 0 limit 1"
    ).rows | length > 0) -%}
{%- endmacro -%}
