{#
    How far an incremental table has come with each of the sources that it reads: for each of
    the columns named, its highest value, 0 on the first build and in a full refresh.
#}
{%- macro newest_loads_applied(columns) -%}

{%- set found = {} -%}
{%- if execute and is_incremental() -%}
    {%- set found = run_query('select max(' ~ columns | join('), max(') ~ ') from ' ~ this).rows[0] -%}
{%- endif -%}
{%- set applied = {} -%}
{%- for column in columns -%}
    {%- do applied.update({column: (found[loop.index0] or 0) | int}) -%}
{%- endfor -%}
{%- do return(applied) -%}

{%- endmacro -%}
