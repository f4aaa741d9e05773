{#
    Whether the log contains a reload. Checking once, when the staging view is created, costs
    less than checking in every query.
#}
{%- macro log_has_reloads(log) -%}
    {%- if not execute or not load_relation(log) -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- if adapter.may_begin_reload is defined and not adapter.may_begin_reload(log) -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- do return(run_query(
        "select 1 from " ~ log ~ " where _is_delete and _op = 'T' and _position = 0 limit 1"
    ).rows | length > 0) -%}
{%- endmacro -%}
