{#-
    The format of a node's tables, by its `file_format`. Raises an error if the node or the target
    cannot have it: when dbt parses the project, and before a table is created.
-#}
{%- macro require_format(node) -%}
    {%- set name = node.config.get('file_format') -%}
    {%- set format = tidemark.table_format(name) -%}
    {%- set problem = format.problem(node) -%}
    {%- if problem -%}
        {%- do exceptions.raise_compiler_error(
            node.name ~ " has file_format: " ~ name ~ ", which does not work here. " ~ problem
            ~ ". Or set another file_format, in its config() or in dbt_project.yml."
        ) -%}
    {%- endif -%}
    {%- do return(format) -%}
{%- endmacro -%}
