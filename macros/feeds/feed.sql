{#
    Look up the feed of one table, as declared in the YAML of a dbt source.

    While dbt parses, the graph does not exist yet. Then the result is an empty feed, and
    nobody runs the SQL rendered from it.
#}
{%- macro feed(source_name, table_name) -%}

    {%- if not execute -%}
        {%- do return({
            'name': '', 'format': '', 'key': [], 'sequence': [], 'is_placed': false, 'epochs': [], 'columns': {}, 'kept': {}, 'partial': {}, 'has_generations': false, 'table': {}, 'logs': [],
        }) -%}
    {%- endif -%}

    {%- set found = graph.sources.values()
        | selectattr('source_name', 'equalto', source_name)
        | selectattr('name', 'equalto', table_name)
        | list -%}
    {%- if not found -%}
        {%- do exceptions.raise_compiler_error(
            "feed: the source table " ~ source_name ~ "." ~ table_name ~ " is not declared. "
            ~ "Declare it in models/staging/" ~ source_name ~ "/_" ~ source_name ~ "__sources.yml."
        ) -%}
    {%- endif -%}

    {%- set source_table = found[0] -%}
    {%- set settings = source_table.source_meta.get('feed', {}).copy() -%}
    {%- do settings.update(source_table.config.meta.get('feed', {})) -%}
    {%- if not settings.get('key') -%}
        {%- do exceptions.raise_compiler_error(
            "feed: " ~ source_table.original_file_path ~ " declares no feed with a key for "
            ~ source_name ~ "." ~ table_name ~ ". Add config.meta.feed with a key."
        ) -%}
    {%- endif -%}

    {#- dbt-glue cannot land, nor can dbt without Tidemark's Python package. -#}
    {%- set can_land = adapter.landing_failure is defined -%}
    {%- set failure = adapter.landing_failure(source_name ~ '.' ~ table_name) if can_land -%}
    {%- if target.type == 'spark' and not can_land -%}{%- do tidemark._warn_once() -%}{%- endif -%}
    {%- if failure -%}
        {%- do exceptions.raise_compiler_error(
            source_name ~ "." ~ table_name ~ " could not be landed, so it was not built: " ~ failure
        ) -%}
    {%- endif -%}

    {%- set log = load_relation(api.Relation.create(
        schema=source_table.schema, identifier=source_table.identifier
    )) -%}
    {%- set in_log = tidemark._columns_of_log(source_table, log) -%}
    {%- set key = tidemark._spelled(settings.key, in_log) -%}
    {%- set sequence = tidemark._spelled(settings.get('sequence'), {}) -%}
    {#- Debezium's default: the position in the source's log, or in Kafka, which landing records. -#}
    {%- set is_placed = settings.format == 'debezium' and (not sequence or sequence[0] in ('source', 'offset')) -%}
    {#- Kafka may deliver an old change again, so the time of the file tells which topic it is from. -#}
    {%- set epoch_at = '_file_at' if is_placed and sequence[:1] == ['offset'] else '_changed_at' -%}
    {%- set sequence = [] if is_placed else tidemark._spelled(sequence, in_log) -%}
    {%- set epochs = settings.get('epochs') or [] -%}
    {#- YAML turns texts into dates. -#}
    {%- set epochs = [epochs] if epochs is string or epochs is not iterable else epochs -%}
    {%- set included = tidemark._spelled(settings.get('include_columns'), in_log) -%}
    {%- set changed_columns = tidemark._spelled(settings.get('changed_columns'), in_log) -%}
    {%- set excluded = tidemark._spelled(settings.get('exclude_columns'), in_log) + changed_columns -%}
    {%- set columns = {} -%}
    {%- set kept = {} -%}
    {%- for column in source_table.columns.values() -%}
        {%- set type = (column.data_type or 'string') | lower -%}
        {%- set name = tidemark._spelled(column.name, in_log)[0] -%}
        {%- do columns.update({name: type}) -%}
        {%- if name in key or (name not in excluded and (not included or name in included)) -%}
            {%- do kept.update({name: type}) -%}
        {%- endif -%}
    {%- endfor -%}

    {#- Of a table that someone else writes, only the declared columns are read. -#}
    {%- if not included and settings.format != 'table' -%}
        {%- for column in in_log.values() if column.name not in columns -%}
            {%- do columns.update({column.name: column.type}) -%}
            {%- if column.name not in excluded -%}{%- do kept.update({column.name: column.type}) -%}{%- endif -%}
        {%- endfor -%}
    {%- endif -%}

    {%- if settings.format == 'debezium' and 'unavailable_value' not in settings -%}
        {%- do settings.update({'unavailable_value': '__debezium_unavailable_value'}) -%}
    {%- endif -%}

    {%- do return({
        'name': source_name ~ '.' ~ table_name,
        'format': settings.format,
        'key': key,
        'sequence': sequence,
        'is_placed': is_placed,
        'epochs': epochs | map('string') | map('replace', 'T', ' ') | list,
        'epoch_at': epoch_at,
        'columns': columns,
        'kept': kept,
        'partial': tidemark._partial_rows(settings, columns, key + sequence, in_log),
        'has_generations': settings.format == 'dms' and sequence | length > 0,
        'is_of_folders': settings.get('extract_is') == 'folder',
        'table': tidemark._table_settings(settings),
        'logs': [log] if log else [],
    }) -%}

{%- endmacro -%}


{#- The settings of a feed with format table; empty for the feeds that Tidemark lands. -#}
{%- macro _table_settings(settings) -%}
    {%- if settings.format != 'table' -%}{%- do return({}) -%}{%- endif -%}
    {%- set known = [
        'format', 'key', 'sequence', 'epochs', 'batch', 'changed_at', 'initial_when', 'delete_when', 'truncate_when',
        'include_columns', 'exclude_columns', 'ignore_null_updates', 'changed_columns', 'unavailable_value',
    ] -%}
    {%- for name in settings if name not in known -%}
        {%- do exceptions.raise_compiler_error(
            "feed: the setting '" ~ name ~ "' is unknown for format: table. Use " ~ known | join(', ') ~ "."
        ) -%}
    {%- endfor -%}
    {%- do return({
        'batch': settings.get('batch'),
        'changed_at': settings.get('changed_at'),
        'operations': {
            'T': settings.get('truncate_when'),
            'D': settings.get('delete_when'),
            'R': settings.get('initial_when'),
        },
    }) -%}
{%- endmacro -%}


{#
    Warn once per run, in one model, if dbt runs without Tidemark's Python package.
-#}
{%- macro _warn_once() -%}
    {%- set of_feeds = [] -%}
    {%- for name in selected_resources if 'macro.tidemark.feed' in graph.nodes.get(name, {}).get('depends_on', {}).get('macros', []) -%}
        {%- do of_feeds.append(name) -%}
    {%- endfor -%}
    {%- if model.unique_id == of_feeds | sort | first -%}
        {%- do exceptions.warn(
            "dbt runs without Tidemark's Python package. New files do not land. If a table is dropped while "
            ~ "dbt lists its schema, dbt may rebuild other tables. Spark gets no settings from Tidemark. With "
            ~ "method thrift, dbt sends a statement again if the connection is lost. With method session, all "
            ~ "threads share one session and its temporary views. Seeds and Python models work as in stock "
            ~ "dbt-spark. To fix this, run `pip install tidemark` in dbt's environment."
        ) -%}
    {%- endif -%}
{%- endmacro -%}


{#
    Each column that an update may leave out, with the SQL condition that detects it. Empty
    for a feed whose updates are complete rows.
#}
{%- macro _partial_rows(settings, columns, whole, in_log) -%}
    {%- set ignores_all = settings.get('ignore_null_updates') is sameas true -%}
    {%- set ignored = [] if ignores_all else tidemark._spelled(settings.get('ignore_null_updates'), in_log) -%}
    {%- set unavailable = settings.get('unavailable_value') -%}
    {%- set changed_columns = (tidemark._spelled(settings.get('changed_columns'), in_log) or [none])[0] -%}
    {%- set partial = {} -%}
    {%- for name in columns if name not in whole + [changed_columns] -%}
        {%- set conditions = [] -%}
        {%- if ignores_all or name in ignored -%}
            {%- do conditions.append("`" ~ name ~ "` is null") -%}
        {%- endif -%}
        {%- if unavailable -%}
            {#- Compared with a number, such a text would be NULL. -#}
            {%- set is_text = settings.format != 'table' or columns[name] == 'string' -%}
            {%- set text = '`' ~ name ~ '`' if is_text else 'cast(`' ~ name ~ '` as string)' -%}
            {%- do conditions.append(text ~ " <=> " ~ dbt.string_literal(unavailable)) -%}
        {%- endif -%}
        {%- if changed_columns -%}
            {%- do conditions.append(
                "not coalesce(array_contains(" ~ tidemark.names_in_list('`' ~ changed_columns ~ '`')
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
    The columns of the feed's log, except Tidemark's own, by lower-case name: the name in the log, and
    the type if the column is not declared. Either the column was found in a file, and landing wrote
    its type into the column's comment. Or it was declared in the past, and a property of the log has
    its last type.
#}
{%- macro _columns_of_log(source_table, log) -%}
    {%- set found = {} -%}
    {%- set mark = 'Found in a file, not declared; data_type ' -%}
    {%- for name, comment in (tidemark._columns(log) if log else {}).items() if not name.startswith('_') -%}
        {%- set is_found = comment.startswith(mark) -%}
        {%- do found.update({name | lower: {
            'name': name, 'type': comment[mark | length:] if is_found else 'string',
        }}) -%}
    {%- endfor -%}
    {%- set declared = source_table.columns.keys() | map('lower') | list -%}
    {%- if found.keys() | reject('in', declared) | list -%}
        {#- Landing breaks words for which Spark would hide the value. -#}
        {%- set of_old = tidemark._properties(log).get('tidemark.declared_columns', '{}') | replace('¦', '') -%}
        {%- for name, type in fromjson(of_old).items() if name | lower in found -%}
            {%- do found[name | lower].update({'type': type}) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- do return(found) -%}
{%- endmacro -%}


{#-
    One or more names as a list, in the letter case of the log. Tables keep the names that they were
    created with, and Spark ignores letter case.
-#}
{%- macro _spelled(names, in_log) -%}
    {%- set spelled = [] -%}
    {%- for name in ([names] if names is string else names or []) -%}
        {%- do spelled.append(in_log[name | lower].name if name | lower in in_log else name) -%}
    {%- endfor -%}
    {%- do return(spelled) -%}
{%- endmacro -%}
