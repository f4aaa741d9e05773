{#-
    Whether a merge must be left out, because it has no rows to merge and the table's format would
    commit nevertheless. This computes the first of the source rows.
-#}
{%- macro nothing_to_merge(source) -%}
    {%- if not tidemark.table_format(config.get('file_format')).commits_nothing -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- do return(run_query('select 1 as one from ' ~ source ~ ' limit 1').rows | length == 0) -%}
{%- endmacro -%}
