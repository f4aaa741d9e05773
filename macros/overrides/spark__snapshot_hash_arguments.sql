{#
    Replaces: dbt-spark 1.11 `spark__snapshot_hash_arguments`.
    Why: it joins the key's columns with `|` and takes NULL for '', so keys such as ('a|', 'b') and
    ('a', '|b') share one dbt_scd_id, and closing the version of one closes the other's too.
    Here a `|` within a text is written `^p`, a `^` is `^c`, and NULL is `^0`. All other texts give
    the ids that dbt-spark gives, which stand in the snapshots that there are.
    Delete when: dbt-spark's own macro tells such keys apart.
#}
{%- macro spark__snapshot_hash_arguments(args) -%}
    md5(concat_ws(
        '|'
        {%- for arg in args -%}
        ,
        coalesce(replace(replace(cast({{ arg }} as string), '^', '^c'), '|', '^p'), '^0')
        {%- endfor %}
    ))
{%- endmacro -%}
