{#
    Helper of: `spark__sync_column_schemas`.
    Whether Delta can widen a column by changing only its metadata. Delta 3, for Spark 3.5, can widen
    almost no types. This is the only difference in SQL between the two Spark versions.
#}
{%- macro delta_widens_columns() -%}
    {%- do return(run_query('select version()').columns[0].values()[0].split('.')[0] | int >= 4) -%}
{%- endmacro -%}
