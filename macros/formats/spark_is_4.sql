{#- Whether this is Spark 4 or newer. -#}
{%- macro spark_is_4() -%}
    {%- do return(run_query('select version()').columns[0].values()[0].split('.')[0] | int >= 4) -%}
{%- endmacro -%}
