{#
    Replaces: dbt_expectations 0.10 `default__regexp_instr`.
    Why: on Spark the default checks the length of the match. So a regex that matches an empty text
    (`^$`) counts as not found. It also ignores `is_raw` and `flags`, with only a warning.
    Spark has its own `regexp_instr`, raw literals, and flags inside the regex.
    Called through the entry `dispatch` in dbt_project.yml.
    Delete when: dbt_expectations has a `spark__regexp_instr` that passes the regex cases of
    tests/functional/expectations/cases.yml.
#}
{%- macro spark__regexp_instr(
    source_value, regexp, position=1, occurrence=1, is_raw=false, flags=""
) -%}
    {%- if position != 1 or occurrence != 1 -%}
        {%- do exceptions.raise_compiler_error(
            "regexp_instr: Spark finds only the first match. Leave `position` and `occurrence` "
            ~ "at 1."
        ) -%}
    {%- endif -%}
    {%- if "'" in regexp -%}
        {%- do exceptions.raise_compiler_error(
            "regexp_instr: a single quote would end the SQL string. Write a dot (.) instead. "
            ~ "Got: " ~ regexp
        ) -%}
    {%- endif -%}
    {%- set pattern = '(?' ~ flags ~ ')' ~ regexp if flags else regexp -%}
    regexp_instr({{ source_value }}, {{ 'r' if is_raw }}'{{ pattern }}')
{%- endmacro -%}
