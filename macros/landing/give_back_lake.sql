{#
    Say that dbt has written its last table, so that another run may begin;
    and with TIDEMARK_CATALOG register the tables, if dbt has built some.
    A failure is given as text, which the adapter refuses when dbt runs it as
    SQL: raising here would end the run as if someone had interrupted it.
#}
{%- macro give_back_lake() -%}
    {%- if execute and adapter.give_back_lake is defined -%}
        {%- set has_built = flags.WHICH in ('build', 'run', 'seed', 'snapshot') -%}
        {%- set nodes = (graph.nodes.values() | list) + (graph.sources.values() | list) -%}
        {%- set told = adapter.give_back_lake(nodes if has_built else none) -%}
        {%- if told['lines'] -%}{%- do log(told['lines'], info=true) -%}{%- endif -%}
        {{- told['failure'] -}}
    {%- endif -%}
{%- endmacro -%}
