{#
    The post-hook of current and history models. It removes from Spark's cache the keys that the
    build used to decide what to read (`scope_of_changes`), if its SQL has them. The cache also ends
    with Spark, but a server may run for days.
#}
{%- macro release_new_keys() -%}
    {%- set keys = tidemark._kept_new_keys() -%}
    {%- if keys -%}
        uncache table if exists {{ keys }}
    {%- endif -%}
{%- endmacro -%}


{#- The view with the keys of a table's newer loads. -#}
{%- macro _new_keys(table) -%}
    {%- do return(table.identifier ~ '__new_keys') -%}
{%- endmacro -%}


{#- The view that the SQL of this model reads; '' if it reads none. -#}
{%- macro _kept_new_keys() -%}
    {%- set keys = tidemark._new_keys(this) -%}
    {%- do return(keys if execute and keys in (model.get('compiled_code') or '') else '') -%}
{%- endmacro -%}
