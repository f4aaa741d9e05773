{#
    How far an incremental table has come with each of the sources that it reads: for each of
    the columns named, its highest value, 0 on the first build and in a full refresh.
#}
{%- macro newest_loads_applied(columns) -%}

{%- set applied = {} -%}
{%- if execute and is_incremental() -%}
    {%- set highest = [] -%}
    {%- for column in columns -%}
        {%- do highest.append('coalesce(max(' ~ column ~ '), 0) as ' ~ column) -%}
    {%- endfor -%}
    {%- set found = run_query('select ' ~ highest | join(', ') ~ ' from ' ~ this).rows[0] -%}
    {%- for column in columns -%}
        {%- do applied.update({column: found[column] | int}) -%}
    {%- endfor -%}
{%- else -%}
    {%- for column in columns -%}
        {%- do applied.update({column: 0}) -%}
    {%- endfor -%}
{%- endif -%}
{%- do return(applied) -%}

{%- endmacro -%}
