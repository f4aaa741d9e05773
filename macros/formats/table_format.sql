{#
    What a table format does, and what it cannot do. All differences between the formats are in the
    mappings that this gives, and each format has one file in this folder:

      catalog          the Spark catalog of its tables; none is Spark's own, which has those of the
                       lake's own format
      file_column      the column of a change log with the file's path
      replaces         whether `create or replace table` replaces a table in one step
      properties       a macro: the properties that a table is created with; none without one
      not_in_properties  a character that no property may have; none if there is none
      stages_source    a macro that makes a merge compute its source rows once; none without one
      commits_nothing  whether a merge without rows to merge also commits
      merges_sql       whether a merge may contain the model's SQL: see `note_same_columns`
      compares_keys    how a merge compares keys: `<=>`, or `=` in a table whose key has no NULL
      rows_to_merge    a macro: the rows of a merge as the format can take them; none for as they are
      tries_each_clause  whether a row that a merge deletes must match no other clause
      marks_rows       the properties with which a merge marks rows and does not rewrite their files;
                       a table that has the first one keeps its value; {} if it cannot
      widens           a macro: whether a column can go from one type to another in the metadata
      widening         the properties that a table needs before
      versions         a macro: a query of a table's versions, the newest first, with the columns
                       version, timestamp, userMetadata (the id of the run)
      names_runs       a macro: whether this Spark version can write that id into a commit
      problem          a macro: why a node cannot have this format, or ''

    What Spark and the commands need of a format is in python/tidemark/formats.
#}
{%- macro table_format(name) -%}
    {%- if name == 'iceberg' -%}
        {%- do return(tidemark.iceberg_format()) -%}
    {%- elif name == 'hudi' -%}
        {%- do return(tidemark.hudi_format()) -%}
    {%- endif -%}
    {%- set format = tidemark.delta_format() -%}
    {%- if name != 'delta' -%}
        {#- dbt-spark's own, of which Tidemark knows nothing. -#}
        {%- do format.update({'replaces': false}) -%}
    {%- endif -%}
    {%- do return(format) -%}
{%- endmacro -%}


{#-
    The `file_format` of a table that exists: in another format than the lake's, the relation has its
    catalog, or what the catalog says of it.
-#}
{%- macro format_of_table(relation) -%}
    {%- if relation.database -%}{%- do return(relation.database) -%}{%- endif -%}
    {%- set table = load_relation(relation) -%}
    {%- do return('hudi' if table and table.is_hudi else tidemark.lake_format()) -%}
{%- endmacro -%}
