{#
    Say that dbt has written its last table, so that another run may begin.
    For lakes that several machines reach; elsewhere this does nothing.
#}
{%- macro give_back_lake() -%}
    {%- if execute and target.type == 'spark' -%}{%- do adapter.give_back_lake() -%}{%- endif -%}
{%- endmacro -%}
