{#
    Replaces: dbt-core 1.11 `default__sync_column_schemas`.
    Why: with `append_new_columns` it does not change types. So a value too large for an int stops the
    build, and a timestamp in a date column loses its time of day without a warning.
    Here a wider type widens the column: in the metadata if the format can, otherwise by a rewrite, if
    the format can replace a table.
    A type that cannot hold the old values is refused.
    Delete when: dbt-core widens types with `append_new_columns`, and dbt-spark supports it.
#}
{%- macro spark__sync_column_schemas(on_schema_change, target_relation, schema_changes_dict) -%}
    {#- Spark finds what it has cached by a plan, and the plan changes with the table. -#}
    {%- set new_keys = tidemark._kept_new_keys() -%}
    {%- if new_keys -%}
        {%- do run_query('uncache table if exists ' ~ new_keys) -%}
    {%- endif -%}
    {%- set added = schema_changes_dict['source_not_in_target'] -%}
    {%- set removed = (
        schema_changes_dict['target_not_in_source'] if on_schema_change == 'sync_all_columns' else []
    ) -%}
    {%- set old_types = {} -%}
    {%- for column in schema_changes_dict['target_columns'] -%}
        {%- do old_types.update({column.name | lower: column.data_type}) -%}
    {%- endfor -%}
    {%- set altered = {} -%}
    {%- set rewritten = {} -%}
    {%- for change in schema_changes_dict['new_target_types'] -%}
        {%- set old, new = old_types[change.column_name | lower], change.new_type -%}
        {%- if tidemark._is_wider(old, new) -%}
            {%- do altered.update({change.column_name: new}) -%}
        {%- elif (old, new) == ('date', 'timestamp') -%}
            {%- do rewritten.update({change.column_name: new}) -%}
        {%- elif not tidemark._is_wider(new, old) -%}
            {%- do exceptions.raise_compiler_error(
                target_relation ~ ": the column " ~ change.column_name ~ " cannot change from " ~ old ~ " to "
                ~ new ~ " without losing data, so nothing was written. Revert the change, or rebuild "
                ~ "the table: dbt build --full-refresh --select " ~ model.name ~ "."
            ) -%}
        {%- endif -%}
    {%- endfor -%}

    {%- set format = tidemark.table_format(config.get('file_format')) -%}
    {%- for name, type in altered.copy().items() if not format.widens(old_types[name | lower], type) -%}
        {%- do rewritten.update({name: altered.pop(name)}) -%}
    {%- endfor -%}
    {%- if rewritten and not format.replaces -%}
        {%- set name, type = rewritten.items() | first -%}
        {%- do exceptions.raise_compiler_error(
            target_relation ~ ": a " ~ config.get('file_format') ~ " table cannot change the type of a column ("
            ~ name ~ ", from " ~ old_types[name | lower] ~ " to " ~ type ~ "), so nothing was written. Rebuild the "
            ~ "table: dbt build --full-refresh --select " ~ model.name ~ "."
        ) -%}
    {%- endif -%}
    {%- if added or removed -%}
        {%- do alter_relation_add_remove_columns(target_relation, added or none, removed or none) -%}
        {#- From now on the table must also record the settings that these are derived with. -#}
        {%- set properties = tblproperties_clause() | trim -%}
        {%- if properties -%}
            {%- do run_query('alter table ' ~ target_relation ~ ' set ' ~ properties) -%}
        {%- endif -%}
    {%- endif -%}
    {%- if altered and format.widening -%}
        {%- do tidemark.set_properties(target_relation, format.widening) -%}
    {%- endif -%}
    {%- for name, type in altered.items() -%}
        {%- do run_query("alter table " ~ target_relation ~ " alter column `" ~ name ~ "` type " ~ type) -%}
    {%- endfor -%}
    {%- if rewritten -%}
        {%- do run_query(create_table_as(
            false, target_relation, tidemark._with_types(adapter.get_columns_in_relation(target_relation), rewritten, target_relation)
        )) -%}
    {%- endif -%}
    {%- if new_keys -%}
        {%- do run_query('cache lazy table ' ~ new_keys) -%}
    {%- endif -%}
{%- endmacro -%}


{#- Whether the new type of a column holds all values of the old one. -#}
{%- macro _is_wider(old, new) -%}
    {%- set digits = {'tinyint': 3, 'smallint': 5, 'int': 10, 'bigint': 20} -%}
    {%- if new in digits -%}
        {%- do return(old in digits and digits[old] < digits[new]) -%}
    {%- elif new == 'double' -%}
        {%- do return(old in ('float', 'tinyint', 'smallint', 'int')) -%}
    {%- elif new.startswith('decimal') -%}
        {%- set precision, scale = new[8:-1].split(',') -%}
        {%- set whole = precision | int - scale | int -%}
        {%- if old in digits -%}
            {%- do return(whole >= digits[old]) -%}
        {%- elif old.startswith('decimal') -%}
            {%- set old_precision, old_scale = old[8:-1].split(',') -%}
            {%- do return(scale | int >= old_scale | int and whole >= old_precision | int - old_scale | int) -%}
        {%- endif -%}
    {%- endif -%}
    {%- do return(false) -%}
{%- endmacro -%}


{%- macro _with_types(columns, types, relation) -%}
    select
        {%- for column in columns %}
        {% if column.name in types -%}
            cast({{ column.quoted }} as {{ types[column.name] }}) as {{ column.quoted }}
        {%- else -%}
            {{ column.quoted }}
        {%- endif -%}
        {%- if not loop.last %},{% endif %}
        {%- endfor %}

    from {{ relation }}
{%- endmacro -%}
