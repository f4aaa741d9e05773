{#
    Replaces: dbt-spark 1.11 `spark__tblproperties_clause`.
    Why: a table has to remember by what it was derived, in the commit that
    creates it. `derived_from` writes it as a comment into the compiled SQL; here it becomes
    a property of the table, beside those of the model's own config.
    Delete when: a model can set `tblproperties` while it is compiled.
#}
{%- macro spark__tblproperties_clause() -%}
    {%- set properties = (config.get('tblproperties') or {}).copy() -%}
    {%- set mark = '-- tidemark.derived_from: ' -%}
    {%- for line in (model.get('compiled_code') or '').splitlines() if line.strip().startswith(mark) -%}
        {%- do properties.update({'tidemark.derived_from': line.strip()[mark | length:]}) -%}
    {%- endfor -%}
    {%- if properties %}
    tblproperties (
        {%- for name, value in properties.items() %}
        '{{ name }}' = '{{ value }}'
        {%- if not loop.last %},{% endif %}
        {%- endfor %}
    )
    {%- endif %}
{%- endmacro -%}
