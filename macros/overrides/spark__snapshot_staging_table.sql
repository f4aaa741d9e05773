{#
    Replaces: dbt-core `default__snapshot_staging_table`, for Spark.
    Why: it trusts the unique_key. Every run inserts rows without a key again, and if several rows have
    the same key, each becomes an open version. Here such keys stop the snapshot, before the view of
    its changes is created. The rest is dbt-core's.
    Delete when: dbt-core refuses such keys.
#}
{%- macro spark__snapshot_staging_table(strategy, source_sql, target_relation) -%}
    {%- do tidemark.require_one_row_per_snapshot_key(strategy.unique_key, source_sql) -%}
    {{ default__snapshot_staging_table(strategy, source_sql, target_relation) }}
{%- endmacro -%}
