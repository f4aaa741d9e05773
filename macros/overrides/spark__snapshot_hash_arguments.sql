{#
    Replaces: dbt-spark 1.11 `spark__snapshot_hash_arguments`.
    Why: it joins the key's columns with `|` and takes NULL for '', so keys such as ('a|', 'b') and
    ('a', '|b') share one dbt_scd_id, and closing the version of one closes the other's too.
    Here each text has its length in front, and NULL is a minus. The ids of versions that a
    snapshot already holds stay valid: they are read from the table, not computed again.
    Delete when: dbt-spark's own macro tells such keys apart.
#}
{%- macro spark__snapshot_hash_arguments(args) -%}
    md5(concat(
        {%- for arg in args %}
        coalesce(concat(length(cast({{ arg }} as string)), ':', cast({{ arg }} as string)), '-')
        {%- if not loop.last %},{% endif %}
        {%- endfor %}
    ))
{%- endmacro -%}
