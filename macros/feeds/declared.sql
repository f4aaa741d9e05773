{#- What a table declares. Delta's log tells it; if this process cannot read that, Spark must. -#}
{%- macro _declared(table) -%}
    {%- do return(adapter.declared(table) if adapter.declared is defined else none) -%}
{%- endmacro -%}


{#- The columns of a table, and the comment of each. -#}
{%- macro _columns(table) -%}
    {%- set declared = tidemark._declared(table) -%}
    {%- if declared -%}{%- do return(declared.columns) -%}{%- endif -%}
    {%- set columns = {} -%}
    {%- for name, _, comment in tidemark._described(run_query('describe table ' ~ table)) -%}
        {%- do columns.update({name: comment or ''}) -%}
    {%- endfor -%}
    {%- do return(columns) -%}
{%- endmacro -%}


{#- Columns as dbt has them. With --empty and --sample, the relation itself is a subquery. -#}
{%- macro _columns_of_all_rows(relation) -%}
    {%- do return(adapter.get_columns_in_relation(api.Relation.create(
        database=relation.database, schema=relation.schema, identifier=relation.identifier
    ))) -%}
{%- endmacro -%}


{#- The types of a table's columns, by their names in lower case. -#}
{%- macro _types(table) -%}
    {%- set declared = tidemark._declared(table) -%}
    {%- if declared -%}{%- do return(declared.types) -%}{%- endif -%}
    {%- do return(tidemark._types_described(run_query('describe table ' ~ table))) -%}
{%- endmacro -%}


{%- macro _types_described(told) -%}
    {%- set types = {} -%}
    {%- for name, type, _ in tidemark._described(told) -%}
        {%- do types.update({name | lower: type}) -%}
    {%- endfor -%}
    {%- do return(types) -%}
{%- endmacro -%}


{#- The columns in an answer of `describe table`, which also has a section on partitions. -#}
{%- macro _described(told) -%}
    {%- set columns = [] -%}
    {%- for row in told.rows if row[0] and not row[0].startswith('#') and row[0] != 'Part 0' -%}
        {%- do columns.append(row) -%}
    {%- endfor -%}
    {%- do return(columns) -%}
{%- endmacro -%}


{#- The properties of a table, by name. -#}
{%- macro _properties(table) -%}
    {%- set declared = tidemark._declared(table) -%}
    {%- if declared -%}{%- do return(declared.properties) -%}{%- endif -%}
    {%- set properties = {} -%}
    {%- for name, value in run_query('show tblproperties ' ~ table).rows -%}
        {%- do properties.update({name: value}) -%}
    {%- endfor -%}
    {%- do return(properties) -%}
{%- endmacro -%}
