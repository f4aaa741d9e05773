{#
    Enable Spark's whole-stage code generation for this model if it reads many rows. Embedded Spark
    disables it, because for a few rows the compiling takes longer than the query. A run enables it if
    many rows are new (`tidemark.spark.session.suited_to`), but a rebuild reads many without new files.
#}
{%- macro generate_code_for(row_count) -%}
    {%- if (row_count or 0) | int >= 10000 -%}
        {%- do run_query('set spark.sql.codegen.wholeStage = true') -%}
        {%- do run_query('set spark.sql.codegen.factoryMode = FALLBACK') -%}
    {%- endif -%}
{%- endmacro -%}
