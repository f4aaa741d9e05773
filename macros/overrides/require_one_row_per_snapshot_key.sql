{#
    Helper of: `spark__build_snapshot_table`, `spark__snapshot_staging_table`.
    It runs the snapshot's query once more, only for its keys, and reports up to three wrong keys. It
    does not show their values: more people can read dbt's logs and artifacts than the table.
#}
{%- macro require_one_row_per_snapshot_key(unique_key, sql) -%}

{%- set keys = [unique_key] if unique_key is string else unique_key -%}
{%- set wrong_keys -%}
select
    {%- for key in keys %}
    cast(key_{{ loop.index }} as string) as key_{{ loop.index }},
    {%- endfor %}
    row_count,
    count(*) over () as key_count
from (
    select
        {%- for key in keys %}
        {{ key }} as key_{{ loop.index }},
        {%- endfor %}
        count(*) as row_count
    from (
        {{ sql }}
    ) as snapshot_query
    group by {% for key in keys %}{{ loop.index }}{{ ', ' if not loop.last }}{% endfor %}
) as rows_per_key
where
    row_count > 1
    {%- for key in keys %}
    or key_{{ loop.index }} is null
    {%- endfor %}
order by row_count desc {%- for key in keys %}, key_{{ loop.index }}{% endfor %}
limit 3
{%- endset -%}
{%- set found = run_query(wrong_keys).rows -%}

{%- if found | length > 0 -%}
    {%- set lines = [] -%}
    {%- for row in found -%}
        {%- set parts = [] -%}
        {%- for key in keys -%}
            {%- set value = row[loop.index0] -%}
            {%- do parts.append(key ~ ' = ' ~ ('NULL' if value is none else '...')) -%}
        {%- endfor -%}
        {%- set count = row[keys | length] -%}
        {%- do lines.append(parts | join(', ') ~ ': ' ~ count ~ (' row' if count == 1 else ' rows')) -%}
    {%- endfor -%}
    {%- set key_count = found[0][keys | length + 1] -%}
    {%- if key_count > found | length -%}
        {%- do lines.append('and ' ~ (key_count - found | length) ~ ' more') -%}
    {%- endif -%}
    {%- set problem -%}
Snapshot {{ model['name'] }}: {{ key_count }} {{ 'key is' if key_count == 1 else 'keys are' }} NULL or not unique, so nothing was written. The unique_key is {{ keys | join(', ') }}.
{%- for line in lines %}
{{ line }}
{%- endfor %}
The log does not show values. To find these keys, group the snapshot's query by the unique_key. Change the query so that it returns one row per key: filter out rows without a key, keep only the newest row per key, or add a column to unique_key that makes it unique.
    {%- endset -%}
    {%- do exceptions.raise_compiler_error(problem) -%}
{%- endif -%}

{%- endmacro -%}
