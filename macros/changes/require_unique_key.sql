{#
    Refuse a model whose `unique_key` is not the one that its rows have: the
    merge would join on other columns.
#}
{%- macro require_unique_key(key) -%}
    {%- set configured = config.get('unique_key') -%}
    {%- set configured = [configured] if configured is string else configured or [] -%}
    {%- if execute and configured | map('lower') | list != key | map('lower') | list -%}
        {%- do exceptions.raise_compiler_error(
            "The key of this table is " ~ key ~ ", but the model's unique_key is "
            ~ configured ~ ". Write {{ config(unique_key=" ~ key ~ ") }} at the top of the model."
        ) -%}
    {%- endif -%}
{%- endmacro -%}
