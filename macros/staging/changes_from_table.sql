{#
    Read a table that someone else appends to as typed change events, in the shape that
    `typed_changes` gives. Its feed has the format `table`.

    The batch numbers the loads. Tables derived from the changes remember the newest batch that
    they have applied, and read only later ones. So a batch must be complete when its first row
    is visible, and batches must grow.
#}
{%- macro changes_from_table(relation, feed) -%}
    {%- if not execute -%}{%- do return('select 1') -%}{%- endif -%}
    {%- set table = feed.table -%}
    {%- if not table -%}
        {%- do exceptions.raise_compiler_error(
            "changes_from_table: the feed of " ~ relation ~ " does not have format: table. "
            ~ "For a change log that Tidemark lands, use typed_changes."
        ) -%}
    {%- endif -%}
    {%- for name in ('sequence', 'batch') if not (feed.sequence if name == 'sequence' else table.batch) -%}
        {%- do exceptions.raise_compiler_error(
            "changes_from_table: the feed of " ~ relation ~ " has no " ~ name ~ ". " ~ (
                "Name the column or columns that order the changes of a key."
                if name == 'sequence' else
                "Name the column that grows with every batch appended to the table: a number or a timestamp."
            )
        ) -%}
    {%- endfor -%}
    {%- set types = {} -%}
    {%- for column in tidemark._columns_of_all_rows(relation) -%}
        {%- do types.update({column.name | lower: column.dtype | lower}) -%}
    {%- endfor -%}
    {%- for name in feed.columns.keys() | list + [table.batch, table.changed_at] if name and name | lower not in types -%}
        {%- do exceptions.raise_compiler_error(
            "changes_from_table: " ~ relation ~ " has no column " ~ name ~ ". It has "
            ~ types.keys() | join(', ') ~ "."
        ) -%}
    {%- endfor -%}
    {%- set batch_is_time = types[table.batch | lower].startswith('timestamp') -%}
    {%- set typed = {} -%}
    {%- for name, type in feed.columns.items() -%}
        {%- do typed.update({name: tidemark.cast_or_fail(name, type, types[name | lower])}) -%}
    {%- endfor -%}
    {%- set row = relation | replace('`', '') ~ ' has a row ' -%}
    {%- set changed_at = 'cast(`' ~ table.changed_at ~ '` as timestamp)' if table.changed_at else none -%}
    {%- set batch_at = 'cast(`' ~ table.batch ~ '` as timestamp)' if batch_is_time else none %}

    with

    told as (

        select
            {%- for name in feed.columns %}
            `{{ name }}`,
            {%- endfor %}
            {%- if table.operations.values() | select | list %}
            case
                {%- for operation, condition in table.operations.items() if condition %}
                when {{ condition }} then '{{ operation }}'
                {%- endfor %}
                else 'U'
            end as _op,
            {%- else %}
            'U' as _op,
            {%- endif %}
            coalesce(
                {{ 'unix_micros(' ~ batch_at ~ ')' if batch_is_time else 'cast(`' ~ table.batch ~ '` as bigint)' }},
                raise_error('{{ row }}without a batch: its column {{ table.batch }} is NULL.')
            ) as _load_id,
            {%- if changed_at or batch_at %}
            coalesce(
                {{ [changed_at, batch_at] | select | join(', ') }},
                raise_error('{{ row }}without a time: its column {{ table.changed_at }} is NULL.')
            ) as _changed_at,
            {%- else %}
            cast(null as timestamp) as _changed_at,
            {%- endif %}
            {{ batch_at or changed_at or 'cast(null as timestamp)' }} as _landed_at

        from {{ relation }}

    ),

    operations as (

        select
            *,
            _op in ('D', 'T') as _is_delete

        from told

        where
            case
                when _op <> 'T' and ({{ tidemark._is_null(feed.key) }})
                    then raise_error('{{ row }}without a key: its column {{ feed.key | join(' or ') }} is NULL.')
                when _op <> 'R' and ({{ tidemark._is_null(feed.sequence) }})
                    then raise_error('{{ row }}without a sequence: its column {{ feed.sequence | join(' or ') }} is NULL.')
                else true
            end

    )

    select
        {{- tidemark.event_columns(feed, typed) | indent(4) }}
        _op,
        _is_delete,
        _changed_at,
        named_struct(
            'phase', if(_op = 'R', 0, 1){% if feed.epochs %} + if(_op = 'R', 0, 2 * {{ tidemark.epoch_of(feed.epochs, '_changed_at') }}){% endif %},
            'sequence', if(
                _op = 'R',
                null,
                {%- if feed.sequence | length == 1 %}
                {{ typed[feed.sequence[0]] }}
                {%- else %}
                named_struct(
                    {%- for name in feed.sequence %}
                    '{{ name }}', {{ typed[name] }}
                    {%- if not loop.last %},{% endif %}
                    {%- endfor %}
                )
                {%- endif %}
            ),
            'file_at', _landed_at,
            'file', '',
            'position', cast(0 as bigint),
            'load_id', _load_id
        ) as _order,
        _load_id,
        _landed_at

    from operations
{%- endmacro -%}
