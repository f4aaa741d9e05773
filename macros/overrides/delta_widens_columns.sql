{#
    Helper of: `spark__sync_column_schemas`.
    Whether Delta gives a column a wider type in its metadata alone. Delta 3, which is
    Spark 3.5's, does so for next to none. The one difference of SQL between the two lines of Spark.
#}
{%- macro delta_widens_columns() -%}
    {%- do return(run_query('select version()').columns[0].values()[0].split('.')[0] | int >= 4) -%}
{%- endmacro -%}
