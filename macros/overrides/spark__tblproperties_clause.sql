{#
    Replaces: dbt-spark 1.11 `spark__tblproperties_clause`.
    Why: a table must record the settings that it is derived with, in the same commit that creates it.
    `derived_from` writes them as a comment into the compiled SQL. Here the comment becomes a property
    of the table, next to the properties that its format needs and those of the model's own config. dbt
    calls this before it creates a table, so it also refuses what the table's format cannot do.
    Delete when: a model can set `tblproperties` while it is compiled.
#}
{%- macro spark__tblproperties_clause() -%}
    {%- set format = tidemark.require_format(model) -%}
    {%- if adapter.require_spark_of is defined -%}
        {%- do adapter.require_spark_of(config.get('file_format')) -%}
    {%- endif -%}
    {%- set properties = format.properties() if format.properties else {} -%}
    {%- do properties.update(config.get('tblproperties') or {}) -%}
    {%- set mark = '-- tidemark.derived_from: ' -%}
    {%- for line in (model.get('compiled_code') or '').splitlines() if line.strip().startswith(mark) -%}
        {%- set derivation = line.strip()[mark | length:] -%}
        {%- if format.not_in_properties == '=' -%}
            {#- As JSON escapes it. In a literal of SQL, two backslashes are one. -#}
            {%- set derivation = derivation | replace('=', 2 * ('%c' | format(92)) ~ 'u003d') -%}
        {%- endif -%}
        {%- do properties.update({'tidemark.derived_from': derivation}) -%}
    {%- endfor -%}
    {%- for name, value in properties.items()
        if format.not_in_properties and format.not_in_properties in value | string -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ " cannot be a " ~ config.get('file_format') ~ " table: its property " ~ name ~ " has a "
            ~ format.not_in_properties ~ ", on which that fails. Nothing was written. Set file_format: delta."
        ) -%}
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
