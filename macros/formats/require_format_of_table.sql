{#-
    Refuse to merge into a table in another format than the model's, where one catalog has both: the
    merge of one format may give wrong rows in another.
-#}
{%- macro require_format_of_table(relation) -%}
    {%- set wanted = config.get('file_format') -%}
    {%- set found = tidemark.format_of_table(relation) if adapter.format_problem is defined else wanted -%}
    {%- if 'hudi' in (wanted, found) and wanted != found -%}
        {%- do exceptions.raise_compiler_error(
            relation ~ " is a table with file_format: " ~ found ~ ", but its model now has file_format: " ~ wanted
            ~ ". Nothing was written. Revert the change, or rebuild the table: dbt build --full-refresh --select "
            ~ model.name ~ "."
        ) -%}
    {%- endif -%}
{%- endmacro -%}
