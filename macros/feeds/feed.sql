{#
    Look up what the YAML of a dbt source declares about one table's feed.

    The graph is not there yet while dbt parses: then the answer is an empty
    feed, which gives SQL that nobody runs.
#}
{%- macro feed(source_name, table_name) -%}

    {%- if not execute -%}
        {%- do return({'key': [], 'sequence': [], 'columns': {}, 'has_truncates': false}) -%}
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

    {%- set columns = {} -%}
    {%- for column in source_table.columns.values() -%}
        {%- do columns.update({column.name: (column.data_type or 'string') | lower}) -%}
    {%- endfor -%}

    {%- do return({
        'key': _as_list(settings.key),
        'sequence': _as_list(settings.get('sequence')),
        'columns': columns,
        'has_truncates': settings.format == 'extract',
    }) -%}

{%- endmacro -%}


{%- macro _as_list(value) -%}
    {%- do return([value] if value is string else (value or []) | list) -%}
{%- endmacro -%}
