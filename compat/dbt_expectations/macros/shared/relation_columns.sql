{#
    The columns of a model as the adapter lists them; an empty list while parsing.

    A test with the config `where` gets a subquery for a model, which has no column list.
#}
{%- macro relation_columns(model) -%}
    {%- if model is string -%}
        {%- do exceptions.raise_compiler_error(
            "dbt_expectations: a test of a table's columns cannot have the config `where`; drop it."
        ) -%}
    {%- endif -%}
    {{ return(adapter.get_columns_in_relation(model) if execute else []) }}
{%- endmacro -%}
