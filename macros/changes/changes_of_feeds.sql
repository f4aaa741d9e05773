{#
    Combine the changes of several feeds, and the rows of a table that was loaded by hand, into one
    `changes` and one `feed`, for the macros that build a table from them. `changes` is a subquery.
    One feed alone stays as it is.

    With `source_column`, each row says which feed it is from. The column is part of the key, so a
    truncate deletes only the rows of its own feed, and the feeds may have different sequences: the
    combined sequence has a field for each feed. Without it, the feeds may have rows of the same key,
    so their sequences must be comparable, and there must be no truncate.

    The rows of `before` are older than all others (phase -1), also than those of an initial load. They
    are of load 0, so a build reads them when it reads everything, or all changes of a key.
#}
{%- macro changes_of_feeds(
    changes, feed, source_column=none, source_values=none, before=none, before_at=none
) -%}
    {%- for needed, given, name in [
        (source_column, source_values, 'source_values needs source_column'),
        (before, before_at, 'before_at needs before'),
    ] if given and not needed -%}
        {%- do exceptions.raise_compiler_error(name ~ ".") -%}
    {%- endfor -%}
    {%- if feed is mapping and not source_column and not before -%}
        {%- do return({'changes': changes, 'feed': feed}) -%}
    {%- endif -%}
    {%- set feeds = [feed] if feed is mapping else feed -%}
    {%- set relations = [changes] if feed is mapping else changes -%}
    {%- if relations is string or relations is mapping or not feeds or relations | length != feeds | length -%}
        {%- do exceptions.raise_compiler_error(
            "Give a list of changes and a list of feeds, with each feed at the place of its changes, such as "
            ~ "[ref('stg_eu__orders'), ref('stg_us__orders')], "
            ~ "[tidemark.feed('eu', 'orders'), tidemark.feed('us', 'orders')]."
        ) -%}
    {%- endif -%}
    {%- if not execute -%}{%- do return({'changes': relations[0], 'feed': feeds[0]}) -%}{%- endif -%}

    {%- set combined = tidemark._combined_feed(
        feeds, source_column, tidemark._source_values(feeds, source_column, source_values)
    ) -%}
    {%- do combined.update({'relations': relations}) -%}
    {#- In a unit test the changes are given rows, which have no truncates. -#}
    {%- set is_unit_test = '__dbt__cte__' in relations | join(' ') -%}
    {%- if feeds | length > 1 and not source_column and not is_unit_test -%}
        {%- do tidemark._require_no_truncates(feeds, relations) -%}
    {%- endif -%}
    {%- if before -%}
        {%- do combined.update({'before': before.identifier ~ (' as of ' ~ before_at if before_at else '')}) -%}
    {%- endif -%}
    {%- set subquery -%}
    (
        {%- for each in feeds %}
        {{ tidemark._changes_of_feed(each, relations[loop.index0], combined, loop.index0) | indent(4) }}
        {% if not loop.last %}union all{% endif %}
        {%- endfor %}
        {%- if before %}
        union all

        {{ tidemark._rows_before(before, before_at, combined) | indent(4) }}
        {%- endif %}
    )
    {%- endset -%}
    {%- do return({'changes': subquery, 'feed': combined}) -%}
{%- endmacro -%}


{#- The value of the source column for each feed: the name of its source, if no others are given. -#}
{%- macro _source_values(feeds, source_column, source_values) -%}
    {%- if not source_column -%}{%- do return([]) -%}{%- endif -%}
    {%- set values = [] -%}
    {%- for each in source_values or feeds -%}
        {%- do values.append(each | string if source_values else each.name.split('.')[0]) -%}
    {%- endfor -%}
    {%- if source_values is string or values | unique(case_sensitive=true) | list | length != feeds | length -%}
        {%- do exceptions.raise_compiler_error(
            "source_values: each feed needs a value of its own in the column " ~ source_column ~ ", and they are "
            ~ values | join(', ') ~ ". Give a list with one value for each feed."
        ) -%}
    {%- endif -%}
    {%- for value in values if "'" in value or '%c' | format(92) in value -%}
        {%- do exceptions.raise_compiler_error(
            "source_values: " ~ value ~ " contains a quote or a backslash. Choose another value."
        ) -%}
    {%- endfor -%}
    {%- do return(values) -%}
{%- endmacro -%}


{%- macro _combined_feed(feeds, source_column, values) -%}
    {%- set first = feeds[0] -%}
    {%- set columns = {source_column: 'string'} if source_column else {} -%}
    {%- set spelled, of_feed, partial = {}, {}, {} -%}
    {%- for each in feeds -%}
        {%- if each.key | map('lower') | sort != first.key | map('lower') | sort -%}
            {%- do exceptions.raise_compiler_error(
                "The key of " ~ first.name ~ " is " ~ first.key | join(', ') ~ ", and that of " ~ each.name ~ " is "
                ~ each.key | join(', ') ~ ". Feeds that make one table must have the same key columns."
            ) -%}
        {%- endif -%}
        {%- for name, type in each.kept.items() -%}
            {%- set known = spelled.get(name | lower) -%}
            {%- if source_column and name | lower == source_column | lower -%}
                {%- do exceptions.raise_compiler_error(
                    "source_column: " ~ each.name ~ " already has a column " ~ name ~ ". Choose another name."
                ) -%}
            {%- elif not known -%}
                {%- do spelled.update({name | lower: name}) -%}
                {%- do of_feed.update({name: each.name}) -%}
                {%- do columns.update({name: type}) -%}
            {%- elif tidemark._plain_type(columns[known]) != tidemark._plain_type(type) -%}
                {%- do exceptions.raise_compiler_error(
                    "The column " ~ name ~ " is " ~ columns[known] ~ " in " ~ of_feed[known] ~ " and " ~ type ~ " in "
                    ~ each.name ~ ". Declare it with one data_type in both, or exclude it in one of them."
                ) -%}
            {%- endif -%}
            {%- if name in each.partial -%}
                {%- set kept = spelled[name | lower] -%}
                {%- set conditions = [partial[kept]] if kept in partial else [] -%}
                {%- do partial.update({kept: (conditions + [each.partial[name]]) | unique | join(' or ')}) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}

    {%- set ordered = feeds | selectattr('sequence') | list + feeds | selectattr('is_placed') | list + [first] -%}
    {%- set fields = [] -%}
    {%- for each in feeds -%}
        {%- if source_column -%}
            {%- do fields.append({'name': each.name | replace('.', '__'), 'type': tidemark._sequence_type(each)}) -%}
        {%- elif tidemark._counts_by_files(each) and not tidemark._counts_by_files(ordered[0]) -%}
            {#- Its rows must be of an initial load, which have no sequence: see _order_of_feed. -#}
        {%- elif each.table and feeds | length > 1 -%}
            {%- do exceptions.raise_compiler_error(
                each.name ~ " has format: table and numbers its loads by itself, so they cannot be told from those "
                ~ "of other feeds. Give source_column, so that each feed has keys of its own."
            ) -%}
        {%- elif tidemark._order_kind(each) != tidemark._order_kind(ordered[0]) -%}
            {%- do exceptions.raise_compiler_error(
                ordered[0].name ~ " is ordered by " ~ tidemark._order_kind(ordered[0]) ~ ", and " ~ each.name ~ " by "
                ~ tidemark._order_kind(each) ~ ", so their changes cannot be compared. Give source_column, so that "
                ~ "each feed has keys of its own."
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return({
        'name': feeds | map(attribute='name') | join(', '),
        'feeds': feeds,
        'source_column': source_column,
        'source_values': values,
        'key': ([source_column] if source_column else []) + first.key,
        'columns': columns,
        'kept': columns,
        'partial': partial,
        'sequence': [],
        'ordered_like': ordered[0],
        'fields': fields,
        'has_generations': feeds | selectattr('has_generations') | list | length > 0,
        'logs': feeds | map(attribute='logs', default=[]) | sum(start=[]),
    }) -%}
{%- endmacro -%}


{#- A truncate would delete the rows of every feed, because nothing says which rows are from its own. -#}
{%- macro _require_no_truncates(feeds, relations) -%}
    {%- set queries = [] -%}
    {%- for relation in relations -%}
        {%- if load_relation(relation) -%}
            {%- do queries.append(
                "select '" ~ feeds[loop.index0].name ~ "' as feed from " ~ relation ~ " where _is_delete and _op = 'T'"
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for row in (run_query('select max(feed) as feed from (' ~ queries | join(' union all ') ~ ')').rows if queries else [])
        if row['feed'] -%}
        {%- do exceptions.raise_compiler_error(
            row['feed'] ~ " has a truncate (a full extract and a reload begin with one). It would also delete the rows of "
            ~ "the other feeds. Give source_column, so that each feed has keys of its own, or retract the file with the "
            ~ "truncate: tidemark retract <file>"
        ) -%}
    {%- endfor -%}
{%- endmacro -%}


{%- macro _changes_of_feed(feed, relation, combined, nth) -%}
    {%- set own = {} -%}
    {%- for name in feed.kept -%}{%- do own.update({name | lower: name}) -%}{%- endfor -%}
    select
        {%- for name, type in combined.columns.items() %}
        {% if name == combined.source_column -%}
        '{{ combined.source_values[nth] }}' as `{{ name }}`,
        {%- elif name | lower in own -%}
        `{{ own[name | lower] }}` as `{{ name }}`,
        {%- else -%}
        cast(null as {{ type }}) as `{{ name }}`,
        {%- endif %}
        {%- endfor %}
        {%- if combined.partial %}
        {{ tidemark._left_out_of(feed, combined) }} as _left_out,
        {%- endif %}
        _op,
        _is_delete,
        _changed_at,
        {{ tidemark._order_of_feed(feed, combined, nth) }} as _order,
        _load_id,
        _landed_at
        {%- if combined.has_generations %},
        {#- A truncate of a feed without generations is not a reload that its staging view does not know. #}
        {{ '_after_reloads' if feed.has_generations else 'array(_load_id) as _after_reloads' }}
        {%- endif %}

    from {{ relation }}
{%- endmacro -%}


{%- macro _left_out_of(feed, combined) -%}
    {%- set renamed = [] -%}
    {%- for name in combined.partial -%}
        {%- for of_feed in feed.partial if of_feed | lower == name | lower and of_feed != name -%}
            {%- do renamed.append((of_feed, name)) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if not feed.partial -%}
        cast(array() as array<string>)
    {%- elif renamed -%}
        {#- The names are compared as texts, and this feed writes some in another letter case. -#}
        transform(_left_out, name -> case name{% for was, is in renamed %} when '{{ was }}' then '{{ is }}'{% endfor %} else name end)
    {%- else -%}
        _left_out
    {%- endif -%}
{%- endmacro -%}


{%- macro _order_of_feed(feed, combined, nth) -%}
    {%- set like = combined.ordered_like -%}
    {%- if combined.source_column -%}
        {%- set values = [] -%}
        {%- for field in combined.fields -%}
            {%- do values.append("'" ~ field.name ~ "', "
                ~ ('_order.sequence' if loop.index0 == nth else 'cast(null as ' ~ field.type ~ ')')) -%}
        {%- endfor -%}
        {{ tidemark._order_with('named_struct(' ~ values | join(', ') ~ ')') }}
    {%- elif tidemark._counts_by_files(feed) and not tidemark._counts_by_files(like) -%}
        {%- set sentence = feed.name ~ ' has a change that is not from an initial load, and no sequence to compare it with '
            ~ like.name ~ '. Declare its sequence, or give source_column.' -%}
        {{ tidemark._order_with(
            'if(_order.sequence is null, cast(null as ' ~ tidemark._sequence_type(like) ~ "), raise_error('" ~ sentence ~ "'))"
        ) }}
    {%- elif feed.sequence | length > 1 and feed.sequence != like.sequence -%}
        {{ tidemark._order_with('cast(_order.sequence as ' ~ tidemark._sequence_type(like) ~ ')') }}
    {%- else -%}
        _order
    {%- endif -%}
{%- endmacro -%}


{%- macro _order_with(sequence) -%}
    named_struct(
            'phase', _order.phase,
            'sequence', {{ sequence }},
            'file_at', _order.file_at,
            'file', _order.file,
            'position', _order.position,
            'load_id', _order.load_id
        )
{%- endmacro -%}


{#
    The rows of a table that was loaded by hand, as the oldest rows of a load. Its keys are checked
    only when a table is built from nothing: later builds read only some of them.
#}
{%- macro _rows_before(before, before_at, feed) -%}
    {%- set types = {} -%}
    {%- set is_there = '__dbt__cte__' not in before | string and load_relation(before) -%}
    {%- for column in (tidemark._columns_of_all_rows(before) if is_there else []) -%}
        {%- do types.update({column.name | lower: column.dtype | lower}) -%}
    {%- endfor -%}
    {%- for name in feed.key if is_there and name | lower not in types -%}
        {%- do exceptions.raise_compiler_error(
            "before: " ~ before ~ " has no column " ~ name ~ ", which is part of the key. It has "
            ~ types.keys() | join(', ') ~ "."
        ) -%}
    {%- endfor -%}
    {%- set columns -%}
        {%- for name, type in feed.columns.items() %}
        {% if not is_there or name | lower in types -%}
        {{ tidemark.cast_or_fail(name, type, types.get(name | lower, type)) }} as `{{ name }}`,
        {%- else -%}
        cast(null as {{ type }}) as `{{ name }}`,
        {%- endif %}
        {%- endfor %}
    {%- endset -%}
    {%- if is_there and not is_incremental() -%}
        {%- set key = tidemark.quoted(feed.key) -%}
        {%- set wrong = run_query(
            'select max(to_json(struct(' ~ key ~ '))) as of_key from (select' ~ columns ~ ' 1 as one from ' ~ before
            ~ ') group by ' ~ key ~ ' having count(*) > 1 or ' ~ tidemark._is_null(feed.key) ~ ' limit 1'
        ).rows -%}
        {%- for row in wrong -%}
            {%- do exceptions.raise_compiler_error(
                "before: " ~ before ~ " must have one row for each key (" ~ feed.key | join(', ') ~ "), and no NULL in it. Correct the rows with "
                ~ row['of_key'] ~ "."
            ) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- set at -%}
        coalesce(cast({{ before_at or 'null' }} as timestamp), timestamp'1970-01-01 00:00:00')
    {%- endset -%}
    {%- set sequence_type -%}
        {%- if feed.source_column -%}
        struct<{% for field in feed.fields %}`{{ field.name }}`: {{ field.type }}{% if not loop.last %}, {% endif %}{% endfor %}>
        {%- else -%}
        {{ tidemark._sequence_type(feed.ordered_like) }}
        {%- endif -%}
    {%- endset -%}
    select {{- columns }}
        {%- if feed.partial %}
        cast(array() as array<string>) as _left_out,
        {%- endif %}
        'R' as _op,
        false as _is_delete,
        {{ at }} as _changed_at,
        named_struct(
            'phase', -1,
            'sequence', cast(null as {{ sequence_type }}),
            'file_at', cast(null as timestamp),
            'file', '',
            'position', cast(0 as bigint),
            'load_id', cast(0 as bigint)
        ) as _order,
        cast(0 as bigint) as _load_id,
        {{ at }} as _landed_at
        {%- if feed.has_generations %},
        cast(array() as array<bigint>) as _after_reloads
        {%- endif %}

    from {{ before }}
{%- endmacro -%}


{#- By the place in the files, because the feed declares no sequence. -#}
{%- macro _counts_by_files(feed) -%}
    {%- do return(not feed.sequence and not feed.is_placed) -%}
{%- endmacro -%}


{#- What must be equal for two feeds to be in one order. -#}
{%- macro _order_kind(feed) -%}
    {%- set kind = [] -%}
    {%- for name in feed.sequence -%}{%- do kind.append(tidemark._plain_type(feed.columns[name])) -%}{%- endfor -%}
    {%- if feed.is_placed -%}
        {%- do kind.append('the offset in Kafka' if feed.epoch_at == '_file_at' else 'the place in the source') -%}
    {%- endif -%}
    {%- set kind = 'a sequence of type ' ~ kind | join(', ') if feed.sequence else (kind + ['the place in the files'])[0] -%}
    {%- do return(([kind] + (feed.epochs or [])) | join(', anew since ')) -%}
{%- endmacro -%}


{#- The type that typed_changes and changes_from_table give `_order.sequence`. -#}
{%- macro _sequence_type(feed) -%}
    {%- if feed.is_placed -%}
        string
    {%- elif not feed.sequence -%}
        struct<file_at: timestamp, file: string, position: bigint>
    {%- elif feed.sequence | length == 1 -%}
        {{ feed.columns[feed.sequence[0]] }}
    {%- else -%}
        struct<{% for name in feed.sequence %}`{{ name }}`: {{ feed.columns[name] }}{% if not loop.last %}, {% endif %}{% endfor %}>
    {%- endif -%}
{%- endmacro -%}


{%- macro _plain_type(type) -%}
    {%- do return('int' if type == 'integer' else type | replace(' ', '')) -%}
{%- endmacro -%}
