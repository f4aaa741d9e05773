{#
    Replaces: dbt-spark 1.11 `spark__drop_relation`.
    Why: in some formats, the files of a dropped table stay unless the statement says otherwise.
    Delete when: dbt-spark drops their files.
#}
{%- macro spark__drop_relation(relation) -%}
    {%- call statement('drop_relation', auto_begin=False) -%}
        drop {{ relation.type }} if exists {{ relation }} {{ tidemark.table_format(relation.database).drop }}
    {%- endcall -%}
{%- endmacro -%}
