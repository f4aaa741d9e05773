{#
    Look up what the YAML of a dbt source declares about one table's feed.

    The graph is not there yet while dbt parses: then the answer is an empty
    feed, which gives SQL that nobody runs.
#}
{%- macro feed(source_name, table_name) -%}

    {%- if not execute -%}
        {%- do return({
            'key': [], 'sequence': [], 'is_placed': false, 'epochs': [], 'columns': {}, 'kept': {}, 'partial': {}, 'has_generations': false,
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

    {#- dbt-glue cannot land. -#}
    {%- set failure = adapter.landing_failure(source_name ~ '.' ~ table_name) if target.type == 'spark' -%}
    {%- if failure -%}
        {%- do exceptions.raise_compiler_error(
            source_name ~ "." ~ table_name ~ " could not be landed, so it was not built: " ~ failure
        ) -%}
    {%- endif -%}

    {%- set key = _as_list(settings.key) -%}
    {%- set sequence = _as_list(settings.get('sequence')) -%}
    {#- Debezium's default: the place in the source's log, or in Kafka, which landing writes down. -#}
    {%- set is_placed = settings.format == 'debezium' and (not sequence or sequence[0] in ('source', 'offset')) -%}
    {#- A record of Kafka may tell of an old change anew: which topic it is of, its file's time says. -#}
    {%- set epoch_at = '_file_at' if is_placed and sequence[:1] == ['offset'] else '_changed_at' -%}
    {%- set sequence = [] if is_placed else sequence -%}
    {%- set epochs = settings.get('epochs') or [] -%}
    {#- YAML makes dates of texts. -#}
    {%- set epochs = [epochs] if epochs is string or epochs is not iterable else epochs -%}
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

    {%- if not included -%}
        {%- for name, type in _columns_found_in_files(source_table).items() if name not in columns -%}
            {%- do columns.update({name: type}) -%}
            {%- if name not in excluded -%}{%- do kept.update({name: type}) -%}{%- endif -%}
        {%- endfor -%}
    {%- endif -%}

    {%- if settings.format == 'debezium' and 'unavailable_value' not in settings -%}
        {%- do settings.update({'unavailable_value': '__debezium_unavailable_value'}) -%}
    {%- endif -%}

    {%- do return({
        'key': key,
        'sequence': sequence,
        'is_placed': is_placed,
        'epochs': epochs | map('string') | map('replace', 'T', ' ') | list,
        'epoch_at': epoch_at,
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


{#
    Columns that files brought without being declared: landing added them to the
    log, and wrote their types into the columns' comments.
#}
{%- macro _columns_found_in_files(source_table) -%}
    {%- set log = load_relation(api.Relation.create(
        schema=source_table.schema, identifier=source_table.identifier
    )) -%}
    {%- set found = {} -%}
    {%- set mark = 'Found in a file, not declared; data_type ' -%}
    {%- for column in (run_query('describe table ' ~ log).rows if log else []) if (column[2] or '').startswith(mark) -%}
        {%- do found.update({column[0]: column[2][mark | length:]}) -%}
    {%- endfor -%}
    {%- do return(found) -%}
{%- endmacro -%}


{%- macro _as_list(value) -%}
    {%- do return([value] if value is string else (value or []) | list) -%}
{%- endmacro -%}
