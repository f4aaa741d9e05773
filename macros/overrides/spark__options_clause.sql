{#
    Replaces: dbt-spark 1.11 `spark__options_clause`.
    Why: for a Hudi table it adds the option `primaryKey`, which is no key if unique_key is a list. Here the
    key is a property of the table: see `hudi_format`.
    Delete when: dbt-spark joins the columns of a key.
#}
{%- macro spark__options_clause() -%}
    {%- set options = config.get('options') -%}
    {%- if options is not none %}
    options (
        {%- for name, value in options.items() %}
        {{ name }} "{{ value }}"
        {%- if not loop.last %},{% endif %}
        {%- endfor %}
    )
    {%- endif %}
{%- endmacro -%}
