{#
    Replaces: dbt-spark 1.11 `spark__get_merge_sql`.
    Why: its merge cannot delete, updates every match, compares keys with `=`, and needs every
    target column in the source.
    The options have the same names as in dbt-databricks, so that a model reads the same there. Only
    `delete_condition`, `skip_unchanged` (a matched row without a difference is not written) and
    `stage_source` are our own. Source and target are `DBT_INTERNAL_SOURCE` and `DBT_INTERNAL_DEST`.
    With `stage_source`, Delta computes the source rows once and keeps them during the merge. The source
    is dbt's temporary view, or the model's SQL (see spark__create_temporary_view.sql).
    Delete when: dbt-spark's merge has these clauses (dbt-adapters issue 1170).
#}
{%- macro spark__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) -%}

{%- set keys = [unique_key] if unique_key is string else unique_key or [] -%}
{%- if not keys -%}
    {%- do exceptions.raise_compiler_error(
        "The merge into " ~ target ~ " has no unique_key: it would append every row. "
        ~ "Set unique_key, or incremental_strategy='append'."
    ) -%}
{%- endif -%}
{%- do tidemark.require_format_of_table(target) -%}
{%- set noted = tidemark.noted_columns() -%}
{%- set rows -%}
    {%- if noted -%}
(
{{ model.compiled_code.strip() }}
)
    {%- else -%}
{{ source }}
    {%- endif -%}
{%- endset -%}
{%- if tidemark.nothing_to_merge(rows) -%}
    {%- do return("select 'There are no rows to merge.' as told") -%}
{%- endif -%}
{%- set format = tidemark.table_format(config.get('file_format')) -%}
{%- if config.get('stage_source') and format.stages_source -%}
    {%- do format.stages_source() -%}
{%- endif -%}
{%- set columns = adapter.get_columns_in_relation(source) if not noted else [] -%}
{%- for name in noted or [] -%}
    {%- do columns.append(api.Column.create(name, 'string')) -%}
{%- endfor -%}
{%- if format.rows_to_merge -%}
    {%- set rows = format.rows_to_merge(rows, columns, keys) -%}
{%- endif -%}
{#- With append_new_columns, the target has all of them. -#}
{%- if config.get('on_schema_change') != 'append_new_columns' -%}
    {%- set in_source = columns | map(attribute='name') | map('lower') | list -%}
    {%- set columns = [] -%}
    {%- for column in adapter.get_columns_in_relation(target) if column.name | lower in in_source -%}
        {%- do columns.append(column) -%}
    {%- endfor -%}
{%- endif -%}
{%- set updated = get_merge_update_columns(
    config.get('merge_update_columns'), config.get('merge_exclude_columns'), columns
) or columns | map(attribute='quoted') | list -%}
{%- set delete_condition = config.get('delete_condition') -%}
{%- set matched_conditions = [config.get('matched_condition')] | select | list -%}
{%- if delete_condition and format.tries_each_clause -%}
    {%- do matched_conditions.append('not coalesce(' ~ delete_condition ~ ', false)') -%}
{%- endif -%}
{%- if config.get('skip_unchanged') -%}
    {%- set same = [] -%}
    {%- for name in updated -%}
        {%- do same.append('DBT_INTERNAL_SOURCE.' ~ name ~ ' <=> DBT_INTERNAL_DEST.' ~ name) -%}
    {%- endfor -%}
    {%- do matched_conditions.append('not (' ~ same | join(' and ') ~ ')') -%}
{%- endif -%}
{%- set not_matched_condition = config.get('not_matched_condition') -%}

merge into {{ target }} as DBT_INTERNAL_DEST

using {{ rows }} as DBT_INTERNAL_SOURCE

on
    {%- for key in keys %}
    {#- The model may have quoted it, or name a field. -#}
    {%- set is_sql = modules.re.search('[`.]', key) or modules.re.fullmatch('[a-zA-Z0-9_]+', key) -%}
    {%- set name = key if is_sql else tidemark.quoted([key]) %}
    DBT_INTERNAL_SOURCE.{{ name }} {{ format.compares_keys }} DBT_INTERNAL_DEST.{{ name }}
    {%- if not loop.last %} and{% endif %}
    {%- endfor %}
    {%- for predicate in incremental_predicates or [] %}
    and {{ predicate }}
    {%- endfor %}
{% if delete_condition %}
when matched and {{ delete_condition }} then delete
{% endif %}
when matched {%- for condition in matched_conditions %} and ({{ condition }}){% endfor %} then update set
    {%- for name in updated %}
    {{ name }} = DBT_INTERNAL_SOURCE.{{ name }}
    {%- if not loop.last %},{% endif %}
    {%- endfor %}

when not matched {%- if not_matched_condition %} and {{ not_matched_condition }}{% endif %} then insert (
    {%- for column in columns %}
    {{ column.quoted }}
    {%- if not loop.last %},{% endif %}
    {%- endfor %}
)
values (
    {%- for column in columns %}
    DBT_INTERNAL_SOURCE.{{ column.quoted }}
    {%- if not loop.last %},{% endif %}
    {%- endfor %}
)

{%- endmacro -%}
