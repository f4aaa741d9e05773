{# Only the stand-in has this macro: tests/singular/assert_dbt_expectations_is_the_hub_package.sql looks for it. #}
{%- macro is_stand_in() -%}
    {{ return(true) }}
{%- endmacro -%}
