{#- Set properties of a table that exists, in one commit. -#}
{%- macro set_properties(table, properties) -%}
    {%- set told = [] -%}
    {%- for name, value in properties.items() -%}
        {%- do told.append("'" ~ name ~ "' = '" ~ value ~ "'") -%}
    {%- endfor -%}
    {%- do run_query('alter table ' ~ table ~ ' set tblproperties (' ~ told | join(', ') ~ ')') -%}
{%- endmacro -%}
