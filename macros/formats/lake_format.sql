{#-
    The format of the change logs and of Tidemark's own tables: the variable TIDEMARK_FORMAT, or delta.
-#}
{%- macro lake_format() -%}
    {%- do return(env_var('TIDEMARK_FORMAT', '') or 'delta') -%}
{%- endmacro -%}


{#- The column of a change log with the file's path: see docs/log.md. -#}
{%- macro file_column() -%}
    {%- do return(tidemark.table_format(tidemark.lake_format()).file_column) -%}
{%- endmacro -%}
