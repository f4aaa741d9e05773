{#
    The hook behind a current or history model: Spark forgets the keys by which the build has decided
    what to read (`scope_of_changes`). A session that ends forgets them, too, but a Thrift server
    may run for days.
#}
{%- macro release_new_keys() -%}
    {%- if execute and is_incremental() -%}
        uncache table if exists {{ this.identifier }}__new_keys
    {%- endif -%}
{%- endmacro -%}
