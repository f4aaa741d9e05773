{#
    Replaces: dbt-spark 1.11 `spark__create_view_as`.
    Why: a staging view is the same in most builds, and to create it takes a quarter of a second. A view
    that only `typed_changes` writes, with the text that it has, is kept: the text says its columns and
    their types, whatever its log has gained. `--full-refresh` creates it again.
    A view without a schema has the changes of a snapshot whose format has a catalog without views. It
    would be in the schema `default`, for all snapshots with this name. So it is temporary.
    Delete when: dbt-spark keeps a view that has the text already.
#}
{%- macro spark__create_view_as(relation, sql) -%}
    {%- set has_contract = config.get('contract').enforced -%}
    {%- set is_plain = not (
        has_contract or config.persist_relation_docs() or config.persist_column_docs()
    ) -%}
    {%- set reads_a_log = 'macro.tidemark.typed_changes' in model.depends_on.macros and not model.refs -%}
    {%- if is_plain and reads_a_log and '*' not in model.raw_code and tidemark._is_kept(relation, sql) -%}
    select 'The view exists with this text.' as told
    {%- else -%}
    {%- if adapter.note_view is defined -%}{%- do adapter.note_view(relation, sql) -%}{%- endif -%}
    create or replace {{ 'temporary ' if not relation.schema }}view {{ relation }}
    {% if config.persist_column_docs() -%}
    ({{ get_persist_docs_column_list(model.columns, get_columns_in_query(sql)) }})
    {%- endif %}
    {{ comment_clause() }}
    {%- if has_contract %}
    {{ get_assert_columns_equivalent(sql) }}
    {%- endif %}
    as {{ sql }}
    {%- endif -%}
{%- endmacro -%}


{%- macro _is_kept(relation, sql) -%}
    {%- do return(
        adapter.is_view_of is defined and not should_full_refresh() and adapter.is_view_of(relation, sql)
    ) -%}
{%- endmacro -%}
