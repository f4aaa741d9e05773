{#
    Look up what the YAML of a dbt source declares about one table's feed.

    The graph is not there yet while dbt parses: then the answer is an empty
    feed, which gives SQL that nobody runs.
#}
{%- macro feed(source_name, table_name) -%}

    {%- if not execute -%}
        {%- do return({
            'key': [], 'sequence': [], 'columns': {}, 'kept': {}, 'partial': {}, 'has_generations': false,
        }) -%}
    {%- endif -%}

    {%- set found = graph.sources.values()
        | selectattr('source_name', 'equalto', source_name)
        | selectattr('name', 'equalto', table_name)
        | list -%}
    {%- if not found -%}
        {%- do exceptions.raise_compiler_error(
            "feed: no source table " ~ source_name ~ "." ~ table_name ~ " is declared. "
            ~ "Declare it in models/staging/" ~ source_name ~ "/_" ~ source_name ~ "__sources.yml."
        ) -%}
    {%- endif -%}

    {%- set source_table = found[0] -%}
    {%- set settings = source_table.source_meta.get('feed', {}).copy() -%}
    {%- do settings.update(source_table.config.meta.get('feed', {})) -%}
    {%- if not settings.get('key') -%}
        {%- do exceptions.raise_compiler_error(
            "feed: " ~ source_table.original_file_path ~ " declares no feed with a key for "
            ~ source_name ~ "." ~ table_name ~ ": add config.meta.feed."
        ) -%}
    {%- endif -%}

    {%- set key = _as_list(settings.key) -%}
    {%- set sequence = _as_list(settings.get('sequence')) -%}
    {%- set included = _as_list(settings.get('include_columns')) -%}
    {%- set excluded = _as_list(settings.get('exclude_columns')) + _as_list(settings.get('changed_columns')) -%}
    {%- set columns = {} -%}
    {%- set kept = {} -%}
    {%- for column in source_table.columns.values() -%}
        {%- set type = (column.data_type or 'string') | lower -%}
        {%- do columns.update({column.name: type}) -%}
        {%- if column.name in key
            or (column.name not in excluded and (not included or column.name in included)) -%}
            {%- do kept.update({column.name: type}) -%}
        {%- endif -%}
    {%- endfor -%}

    {%- do return({
        'key': key,
        'sequence': sequence,
        'columns': columns,
        'kept': kept,
        'partial': _partial_rows(settings, columns, key, sequence),
        'has_generations': settings.format == 'dms' and sequence | length > 0,
    }) -%}

{%- endmacro -%}


{#
    For each column that an update may leave out, the SQL condition by which it
    does; empty for a feed whose updates are whole rows.
#}
{%- macro _partial_rows(settings, columns, key, sequence) -%}
    {%- set ignore_null = settings.get('ignore_null_updates') or [] -%}
    {%- set unavailable = settings.get('unavailable_value') -%}
    {%- set changed_columns = settings.get('changed_columns') -%}
    {%- set partial = {} -%}
    {%- for name in columns if name not in key + sequence + [changed_columns] -%}
        {%- set conditions = [] -%}
        {%- if ignore_null is sameas true or name in _as_list(ignore_null) -%}
            {%- do conditions.append("`" ~ name ~ "` is null") -%}
        {%- endif -%}
        {%- if unavailable -%}
            {%- do conditions.append("`" ~ name ~ "` <=> " ~ dbt.string_literal(unavailable)) -%}
        {%- endif -%}
        {%- if changed_columns -%}
            {%- do conditions.append(
                "not coalesce(array_contains(" ~ names_in_list('`' ~ changed_columns ~ '`')
                ~ ", '" ~ name | lower ~ "'), true)"
            ) -%}
        {%- endif -%}
        {%- if conditions -%}
            {%- do partial.update({name: conditions | join(' or ')}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(partial) -%}
{%- endmacro -%}


{%- macro _as_list(value) -%}
    {%- do return([value] if value is string else (value or []) | list) -%}
{%- endmacro -%}
