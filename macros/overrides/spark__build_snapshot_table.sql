{#
    Replaces: dbt-core `default__build_snapshot_table`, for Spark.
    Why: the first run of a snapshot trusts the unique_key, just like later runs. See
    spark__snapshot_staging_table.sql.
    Delete when: dbt-core refuses such keys.
#}
{%- macro spark__build_snapshot_table(strategy, sql) -%}
    {%- do tidemark.require_one_row_per_snapshot_key(strategy.unique_key, sql) -%}
    {{ default__build_snapshot_table(strategy, sql) }}
{%- endmacro -%}
