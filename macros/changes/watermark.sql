{#
    The newest load that a table has applied, as a number in the SQL.

    A literal, not a subquery: Delta then skips the log's older files. It is
    read from the table itself, so that a restored or cloned table goes on from
    what it holds. It may fall behind (a load that changed nothing leaves no
    trace); applying a load again changes nothing.
#}
{%- macro watermark(relation) -%}
    {%- if not execute -%}{%- do return(0) -%}{%- endif -%}
    {%- set newest = run_query('select coalesce(max(_load_id), 0) from ' ~ relation) -%}
    {%- do return(newest.columns[0].values()[0] | int) -%}
{%- endmacro -%}
