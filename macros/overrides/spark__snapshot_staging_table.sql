{#
    Replaces: dbt-core `default__snapshot_staging_table`, for Spark.
    Why: it trusts the unique_key. Rows without a key are inserted anew by every run, and of several
    rows with one key each becomes an open version. Here such keys stop the snapshot, before the
    view of its changes is made; the rest is dbt-core's.
    Delete when: dbt-core refuses such keys.
#}
{%- macro spark__snapshot_staging_table(strategy, source_sql, target_relation) -%}
    {%- do tidemark.require_one_row_per_snapshot_key(strategy.unique_key, source_sql) -%}
    {{ default__snapshot_staging_table(strategy, source_sql, target_relation) }}
{%- endmacro -%}
