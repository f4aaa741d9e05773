{#
    Replaces: dbt-spark 1.11 `spark__generate_database_name`.
    Why: it gives no node a catalog. Delta's catalog must be Spark's own, and cannot contain another
    one. So tables in another format are in a catalog of their own, the node's `database`.
    dbt calls this when it parses a node, so it also refuses what a format cannot do.
    Delete when: one catalog of Spark has tables of all formats.
#}
{%- macro spark__generate_database_name(custom_database_name=none, node=none) -%}
    {#- dbt also asks for the exports of saved queries, whose config is no mapping. -#}
    {%- set may_have_table = node and node.resource_type in ('model', 'seed', 'snapshot', 'test') -%}
    {%- set has_table = may_have_table and node.config.get('materialized') not in ('view', 'ephemeral') -%}
    {%- do return(tidemark.require_format(node).catalog if has_table else none) -%}
{%- endmacro -%}
