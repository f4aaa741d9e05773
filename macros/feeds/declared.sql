{#- What a table declares. Delta's log tells it; if this process cannot read that, Spark must. -#}
{%- macro _declared(table) -%}
    {%- do return(adapter.declared(table) if adapter.declared is defined else none) -%}
{%- endmacro -%}


{#- The columns of a table, and the comment of each. -#}
{%- macro _columns(table) -%}
    {%- set declared = tidemark._declared(table) -%}
    {%- if declared -%}{%- do return(declared.columns) -%}{%- endif -%}
    {%- set columns = {} -%}
    {%- for name, _, comment in run_query('describe table ' ~ table).rows
        if name and not name.startswith('#') and name != 'Part 0' -%}
        {%- do columns.update({name: comment or ''}) -%}
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
