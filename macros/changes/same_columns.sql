{#
    Note in the SQL of a build, as its last line, that its rows have the table's columns, with the same
    types. Then the merge contains the SQL. Otherwise dbt creates a temporary view of it, to compare
    its columns with the table's, and Spark analyzes the SQL twice.

    Writes nothing on a first build, for changes of several feeds, for Iceberg tables (two commits at
    nearly the same time failed in the metastore once), and if the model's `on_schema_change` is not
    `append_new_columns`. `own` are the columns besides those of the feed.
#}
{%- macro note_same_columns(changes, feed, own) -%}
    {%- if execute and is_incremental() and config.get('on_schema_change') == 'append_new_columns'
        and not feed.relations and tidemark._is_a_table(changes)
        and tidemark.table_format(config.get('file_format')).merges_sql -%}
        {%- set known, new = tidemark._types(this), tidemark._types_of_changes(changes, feed) -%}
        {%- set other = [] -%}
        {%- for name in feed.kept.keys() | list + own if (
            name | lower not in known
            or new.get(name | lower, known[name | lower]) != known[name | lower]
            or name in feed.kept and name | lower not in new
        ) -%}
            {%- do other.append(name) -%}
        {%- endfor -%}
        {%- if not other -%}
            -- tidemark.same_columns: {{ tojson(feed.kept.keys() | list + own) }}
        {%- endif -%}
    {%- endif -%}
{%- endmacro -%}


{#-
    The columns that the model's SQL notes, or none. What a model has before or after the macro may
    change its columns, so that is nowhere but in a model that is the macro alone.
-#}
{%- macro noted_columns() -%}
    {%- set lines = (model.get('compiled_code') or '').strip().splitlines() -%}
    {%- set before, is_there, columns = (lines | last or '').partition('-- tidemark.same_columns: ') -%}
    {%- if is_there and not before and lines[0].startswith('-- tidemark.derived_from: ') -%}
        {%- do return(fromjson(columns)) -%}
    {%- endif -%}
    {%- do return(none) -%}
{%- endmacro -%}


{#- Not the rows of a unit test, nor the subquery that `--empty` makes of a model. -#}
{%- macro _is_a_table(relation) -%}
    {%- set name = relation | string -%}
    {%- do return(relation.identifier is defined and '(' not in name and '__dbt__cte__' not in name) -%}
{%- endmacro -%}


{#- The models of a feed ask once for the types of its changes. -#}
{%- macro _types_of_changes(changes, feed) -%}
    {%- set question = 'describe table ' ~ changes -%}
    {%- do return(tidemark._types_described(
        adapter.ask_once(question, feed.logs or []) if adapter.ask_once is defined else run_query(question)
    )) -%}
{%- endmacro -%}
