{#
    The post-hook of current and history models. It removes from Spark's cache the keys that the
    build used to decide what to read (`scope_of_changes`), if its SQL has them. The cache also ends
    with Spark, but a server may run for days.
#}
{%- macro release_new_keys() -%}
    {%- set keys = this.identifier ~ '__new_keys' -%}
    {%- if execute and keys in (model.get('compiled_code') or '') -%}
        uncache table if exists {{ keys }}
    {%- endif -%}
{%- endmacro -%}
