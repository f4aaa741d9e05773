{#
    Enable deletion vectors once a table is large. A merge then marks the rows that it changes and
    does not rewrite their files. A small table is faster without them: each query would ask Delta
    for its files three times instead of once, and the marking takes seven Spark jobs per merge.

    If the table already has a property for deletion vectors, it keeps its value.
#}
{%- macro use_deletion_vectors(table, row_count) -%}
    {%- set from_rows = config.get('deletion_vectors_from') -%}
    {%- set properties = tidemark.table_format(config.get('file_format')).marks_rows -%}
    {%- if properties and from_rows is not none and row_count >= from_rows | int -%}
        {%- if properties | first not in tidemark._properties(table) -%}
            {%- do tidemark.set_properties(table, properties) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro -%}
