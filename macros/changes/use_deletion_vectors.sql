{#
    Give a table deletion vectors once it is large: a merge then marks the rows that it changes,
    and need not rewrite their files. A small table is better off without: each query of it would ask
    Delta for its files three times in place of once, and marking takes a merge seven Spark jobs.

    A table whose properties say anything of deletion vectors keeps what they say.
#}
{%- macro use_deletion_vectors(table, row_count) -%}
    {%- set from_rows = config.get('deletion_vectors_from') -%}
    {%- if from_rows is not none and row_count >= from_rows | int -%}
        {%- set property = 'delta.enableDeletionVectors' -%}
        {%- set names = run_query('show tblproperties ' ~ table).columns[0].values() -%}
        {%- if property not in names -%}
            {%- do run_query(
                'alter table ' ~ table ~ " set tblproperties ('" ~ property ~ "' = 'true')"
            ) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro -%}
