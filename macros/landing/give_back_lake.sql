{#
    Signal that dbt has written its last table, so that another run can start. With
    TIDEMARK_CATALOG, also register the tables, if dbt has built some.
    A failure is returned as text. dbt runs the text as SQL, and the adapter refuses it: an
    exception here would end the run as if someone had interrupted it.
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
