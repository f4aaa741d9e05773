{#- Delta, the default: see `table_format`. -#}
{%- macro delta_format() -%}
    {%- do return({
        'catalog': none,
        'file_column': '_file',
        'replaces': true,
        'properties': none,
        'not_in_properties': none,
        'stages_source': tidemark._stages_source_of_delta,
        'commits_nothing': false,
        'merges_sql': true,
        'compares_keys': '<=>',
        'rows_to_merge': none,
        'tries_each_clause': false,
        'marks_rows': {'delta.enableDeletionVectors': 'true'},
        'widens': tidemark._delta_widens,
        'widening': {'delta.enableTypeWidening': 'true'},
        'versions': tidemark._versions_of_delta,
        'names_runs': tidemark._delta_names_runs,
        'problem': tidemark._problem_of_delta,
    }) -%}
{%- endmacro -%}


{#-
    By default, Delta does so only for sources that are not Delta tables, and computes others up to
    three times. Up to 64 MB of them are broadcast, unless you have changed Spark's threshold: a merge
    joins them with the table three times, and would sort the whole table each time.
-#}
{%- macro _stages_source_of_delta() -%}
    {%- set staging = 'spark.databricks.delta.merge.materializeSource' -%}
    {%- if run_query('set ' ~ staging).rows[0][1] != 'all' -%}
        {%- do run_query('set ' ~ staging ~ ' = all') -%}
        {%- if run_query('set spark.sql.autoBroadcastJoinThreshold').rows[0][1] == '10485760b' -%}
            {%- do run_query('set spark.sql.autoBroadcastJoinThreshold = 64m') -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro -%}


{#- Delta 3, for Spark 3.5, can widen almost no types. -#}
{%- macro _delta_widens(old, new) -%}
    {%- do return(tidemark.spark_is_4()) -%}
{%- endmacro -%}


{#- Without quotes, `history.x` is not a name here. -#}
{%- macro _versions_of_delta(relation) -%}
    describe history `{{ relation.schema }}`.`{{ relation.identifier }}`
{%- endmacro -%}


{%- macro _delta_names_runs() -%}{%- do return(true) -%}{%- endmacro -%}


{%- macro _problem_of_delta(node) -%}
    {%- do return(adapter.format_problem('delta') if adapter.format_problem is defined else '') -%}
{%- endmacro -%}
