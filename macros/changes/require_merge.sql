{#
    Refuse an incremental model whose merge settings would give wrong rows, because it
    matches on other columns or does not delete. Such a table would be wrong without any
    error: a deleted row would stay, or appear as a separate row.
#}
{%- macro require_merge(key, delete_condition, not_matched_condition=none) -%}
    {%- set unique_key = config.get('unique_key') -%}
    {%- set unique_key = [unique_key] if unique_key is string else unique_key or [] -%}
    {%- if execute and unique_key | map('lower') | list != key | map('lower') | list -%}
        {%- do exceptions.raise_compiler_error(
            "The key of this table is " ~ key ~ ", but the model's unique_key is "
            ~ unique_key ~ ". Write {{ config(unique_key=" ~ key ~ ") }} at the top of the model."
        ) -%}
    {%- endif -%}
    {%- if execute and config.get('materialized') == 'incremental' -%}
        {%- set wanted = {'incremental_strategy': 'merge', 'delete_condition': delete_condition} -%}
        {%- if not_matched_condition -%}
            {%- do wanted.update({'not_matched_condition': not_matched_condition}) -%}
        {%- endif -%}
        {%- set missing = [] -%}
        {%- for name, value in wanted.items() if (config.get(name) or '').split() != value.split() -%}
            {%- do missing.append("+" ~ name ~ ": " ~ value) -%}
        {%- endfor -%}
        {%- if missing -%}
            {%- do exceptions.raise_compiler_error(
                "The merge of this table would keep deleted rows. Add to its folder in "
                ~ "dbt_project.yml: " ~ missing | join('; ')
            ) -%}
        {%- endif -%}
        {%- set merge = adapter.dispatch('get_merge_sql', 'dbt') -%}
        {%- if merge.macro.package_name != 'tidemark' -%}
            {%- do exceptions.raise_compiler_error(
                "The merge of this table would not delete rows: its macro comes from the package "
                ~ merge.macro.package_name ~ ", not from tidemark. Add to dbt_project.yml: "
                ~ "dispatch: [{macro_namespace: dbt, search_order: [" ~ project_name
                ~ ", tidemark, dbt]}]"
            ) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro -%}
