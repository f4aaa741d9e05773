{#
    Land new files from the landing folder, before the first model of a `dbt build` or
    `dbt run`.
#}
{%- macro land_new_files() -%}
    {%- if execute and flags.WHICH in ('build', 'run') and adapter.land_new_files is defined -%}
        {%- set summary = adapter.land_new_files(graph.sources.values() | list) -%}
        {%- if summary -%}{%- do log(summary, info=true) -%}{%- endif -%}
    {%- endif -%}
{%- endmacro -%}
