{#-
    Iceberg: see `table_format`. In Spark 3.5, only a DataFrame's writer can pass a run's id.

    Merge-on-read needs version 3 of the format: a file then has one deletion vector at most. In
    version 2, each merge adds a delete file for each file that it changes.
-#}
{%- macro iceberg_format() -%}
    {%- do return({
        'catalog': none if tidemark.lake_format() == 'iceberg' else 'iceberg',
        'file_column': '_landed_file',
        'replaces': true,
        'properties': none,
        'not_in_properties': none,
        'stages_source': none,
        'commits_nothing': true,
        'merges_sql': false,
        'compares_keys': '<=>',
        'rows_to_merge': none,
        'tries_each_clause': false,
        'marks_rows': {'write.merge.mode': 'merge-on-read', 'format-version': '3'},
        'widens': tidemark._iceberg_widens,
        'widening': {},
        'versions': tidemark._versions_of_iceberg,
        'names_runs': tidemark.spark_is_4,
        'problem': tidemark._problem_of_iceberg,
    }) -%}
{%- endmacro -%}


{%- macro _iceberg_widens(old, new) -%}
    {%- if old.startswith('decimal') and new.startswith('decimal') -%}
        {%- do return(old[:-1].split(',')[1] | trim == new[:-1].split(',')[1] | trim) -%}
    {%- endif -%}
    {%- do return((old, new) in [('int', 'bigint'), ('float', 'double')]) -%}
{%- endmacro -%}


{#- A snapshot can become current again, so its own time is not that of the version. -#}
{%- macro _versions_of_iceberg(relation) -%}
    select
        version.snapshot_id as version,
        made_current_at as timestamp,
        summary['tidemark-run'] as userMetadata

    from {{ relation }}.history as version

    inner join {{ relation }}.snapshots as made on made.snapshot_id = version.snapshot_id

    order by made_current_at desc
{%- endmacro -%}


{%- macro _problem_of_iceberg(node) -%}
    {%- set config = node.config -%}
    {%- if node.resource_type == 'test' and tidemark.lake_format() == 'iceberg' -%}
        {%- do return(adapter.format_problem('iceberg') if adapter.format_problem is defined else '') -%}
    {%- elif node.resource_type not in ('model', 'seed', 'snapshot') -%}
        {%- do return('The rows of failed tests are only stored in Delta tables. Set +file_format: delta below data_tests') -%}
    {%- elif config.get('materialized') not in ('table', 'incremental', 'seed', 'snapshot') -%}
        {%- do return('Tables, incremental models, seeds and snapshots can have it') -%}
    {%- elif config.get('incremental_strategy') not in (none, 'merge', 'append') -%}
        {%- do return('Set incremental_strategy to merge or append') -%}
    {%- elif config.get('materialized') == 'incremental' and node.language == 'python' -%}
        {%- do return('A Python model can have it if it is a table, not if it is incremental') -%}
    {%- endif -%}
    {%- do return(tidemark.problem_of_place(node, 'Only embedded Spark and a Thrift server (method: thrift) build such tables')) -%}
{%- endmacro -%}
