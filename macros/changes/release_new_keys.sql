{#
    The post-hook of current and history models. It removes from Spark's cache the keys that the
    build used to decide what to read (`scope_of_changes`). The cache also ends with the session,
    but a Thrift server may run for days.
#}
{%- macro release_new_keys() -%}
    {%- if execute and is_incremental() -%}
        uncache table if exists {{ this.identifier }}__new_keys
    {%- endif -%}
{%- endmacro -%}
