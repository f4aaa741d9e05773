{#-
    Why no format besides Delta can have a node's table where the node or the target puts it, or as its
    contract says; '' if nothing stands against it. `builders` is the sentence for an adapter without
    Tidemark's methods. When dbt parses the project, a node has its config. Its columns are known when
    it is built.
-#}
{%- macro problem_of_place(node, builders) -%}
    {%- set constraints = (node.constraints or []) | list -%}
    {%- for column in (node.columns or {}).values() -%}
        {%- do constraints.extend(column.constraints or []) -%}
    {%- endfor -%}
    {%- if node.config.get('location_root') -%}
        {%- do return('Remove location_root: the tables are in the folders of their schemas') -%}
    {%- elif constraints and node.config.get('contract').enforced -%}
        {%- do return('Its tables do not check constraints. Use data tests instead') -%}
    {%- elif adapter.format_problem is not defined -%}
        {%- do return(builders) -%}
    {%- endif -%}
    {%- do return(adapter.format_problem(node.config.get('file_format'))) -%}
{%- endmacro -%}
