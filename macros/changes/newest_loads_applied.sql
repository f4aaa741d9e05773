{#
    The newest load of each source that an incremental table has applied: the highest value of
    each named column, or 0 on the first build and in a full refresh.
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
