{# An exact percentile as an aggregate, by linear interpolation. #}
{%- macro quantile(field, quantile, partition=none) -%}
    {{- adapter.dispatch('quantile', 'dbt_expectations')(field, quantile, partition) -}}
{%- endmacro -%}


{# Used where the project brings no `spark__quantile`. #}
{%- macro default__quantile(field, quantile, partition) -%}
    percentile({{ field }}, {{ quantile }})
{%- endmacro -%}
