{#
    Replaces: dbt-spark 1.11 `spark__create_csv_table`.
    Why: a table is replaced in place, if its format can. See spark__reset_csv_table.sql.
    Delete when: dbt-spark replaces a seed's table.
#}
{%- macro spark__create_csv_table(model, agate_table) -%}
    {%- set types = model.config.get('column_types', {}) -%}
    {%- set quoted = model.config.get('quote_columns') -%}
    {%- set columns = [] -%}
    {%- for name in agate_table.column_names -%}
        {%- set type = types.get(name, adapter.convert_type(agate_table, loop.index0)) -%}
        {%- do columns.append(adapter.quote_seed_column(name, quoted) ~ ' ' ~ type) -%}
    {%- endfor -%}
    {%- set format = tidemark.require_format(model) -%}
    {%- set create = 'create or replace table' if format.replaces else 'create table' -%}
    {%- set sql %}
    {{ create }} {{ this.render() }} ({{ columns | join(', ') }})
    {{ file_format_clause() }}
    {{ partition_cols(label="partitioned by") }}
    {{ clustered_cols(label="clustered by") }}
    {{ location_clause() }}
    {{ comment_clause() }}
    {%- endset -%}
    {%- call statement() %}{{ sql }}{% endcall -%}
    {{- return(sql) -}}
{%- endmacro -%}
