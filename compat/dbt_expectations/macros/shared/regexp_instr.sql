{# Where a regex is found first in a text: 1 for its first letter, 0 for nowhere. #}
{%- macro regexp_instr(
    source_value, regexp, position=1, occurrence=1, is_raw=false, flags=""
) -%}
    {{- adapter.dispatch('regexp_instr', 'dbt_expectations')(
        source_value, regexp, position, occurrence, is_raw, flags
    ) -}}
{%- endmacro -%}


{# Used without the project's `spark__regexp_instr`, which also knows raw regexes and flags. #}
{%- macro default__regexp_instr(source_value, regexp, position, occurrence, is_raw, flags) -%}
    {%- if position != 1 or occurrence != 1 or is_raw or flags -%}
        {%- do exceptions.raise_compiler_error(
            "dbt_expectations: a raw regex, `flags`, `position` and `occurrence` need the "
            ~ "project's macro spark__regexp_instr and its `dispatch` entry."
        ) -%}
    {%- endif -%}
    regexp_instr({{ source_value }}, {{ dbt_expectations.text_literal('regex', regexp) }})
{%- endmacro -%}
