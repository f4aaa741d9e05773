{#-
    Hudi: see `table_format`. Only Spark 3.5 has it.

    A table keeps its key, the model's unique_key, from its first build on. Without Hudi's own columns in
    the files, `select *` has only the model's columns, and a merge is faster. Hudi's fast way to write
    a first build makes tables with a smallint that Spark cannot read. When it creates a table, Hudi fails
    on a property with a `=`, after it has written the rows.
-#}
{%- macro hudi_format() -%}
    {%- do return({
        'catalog': none,
        'file_column': '_file',
        'replaces': false,
        'properties': tidemark._hudi_properties,
        'not_in_properties': '=',
        'stages_source': none,
        'commits_nothing': true,
        'merges_sql': false,
        'compares_keys': '=',
        'rows_to_merge': tidemark._hudi_rows_to_merge,
        'tries_each_clause': true,
        'marks_rows': {},
        'widens': tidemark._hudi_widens,
        'widening': {},
        'versions': tidemark._versions_of_hudi,
        'names_runs': tidemark._hudi_names_runs,
        'problem': tidemark._problem_of_hudi,
    }) -%}
{%- endmacro -%}


{%- macro _hudi_properties() -%}
    {%- set key = tidemark._hudi_key() -%}
    {%- if execute and not is_incremental() -%}
        {%- set types = tidemark._types_described(run_query('describe query ' ~ model.compiled_code)) -%}
        {%- set known = ('string', 'boolean', 'tinyint', 'smallint', 'int', 'bigint') -%}
        {%- for name in key if types.get(name | lower, 'string') not in known -%}
            {%- do exceptions.raise_compiler_error(
                model.name ~ ": a Hudi table can get a key twice whose column " ~ name ~ " is a "
                ~ types[name | lower] ~ ", so nothing was written. Set file_format: delta."
            ) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- set properties = {
        'primaryKey': key | join(','),
        'hoodie.populate.meta.fields': 'false',
        'hoodie.datasource.write.row.writer.enable': 'false',
    } -%}
    {%- if (config.get('tblproperties') or {}).get('type') == 'mor' -%}
        {#- Its merges compact it. A copy-on-write table refuses this. -#}
        {%- do properties.update({'hoodie.compact.inline': 'true'}) -%}
    {%- endif -%}
    {%- do return(properties) -%}
{%- endmacro -%}


{%- macro _hudi_key() -%}
    {%- set key = config.get('unique_key') -%}
    {%- do return([key] if key is string else key) -%}
{%- endmacro -%}


{#-
    Hudi compares a key of several columns as one text, `a:1,b:2`, in which '' is `__empty__`. A value
    with such a part could be another key's, so a merge with it fails. A smallint is an int in the table,
    and must be one in the rows.
-#}
{%- macro _hudi_rows_to_merge(rows, columns, keys) -%}
    {%- set wrong = [] -%}
    {%- for name in keys -%}
        {%- set text = 'cast(`' ~ name ~ '` as string)' -%}
        {%- do wrong.append(text ~ " in ('__empty__', '__null__')") -%}
        {%- for other in keys -%}
            {%- do wrong.append('contains(' ~ text ~ ", '," ~ other ~ ":')") -%}
        {%- endfor -%}
    {%- endfor -%}
(
    select
        {%- for column in columns %}
        {% if column.dtype in ('tinyint', 'smallint') -%}
            cast({{ column.quoted }} as int) as {{ column.quoted }}
        {%- else -%}
            {{ column.quoted }}
        {%- endif -%}
        {%- if not loop.last %},{% endif %}
        {%- endfor %}

    from {{ rows }}

    {%- if keys | length > 1 %}

    where
        case
            when {{ wrong | join(' or ') }}
                then raise_error(
                    'Hudi would confuse a key of this merge with another one: a column has a text such as __empty__, '
                    || 'or a comma, the name of a column of the key, and a colon. Set file_format: delta.'
                ) is null
            else true
        end
    {%- endif %}
)
{%- endmacro -%}


{#- In Spark's own catalog, `alter column ... type` does not work. -#}
{%- macro _hudi_widens(old, new) -%}{%- do return(false) -%}{%- endmacro -%}


{%- macro _hudi_names_runs() -%}{%- do return(false) -%}{%- endmacro -%}


{%- macro _versions_of_hudi(relation) -%}
    {%- do exceptions.raise_compiler_error(
        "as_of_run: the versions of " ~ relation ~ ", a Hudi table, do not name their runs. Use a time instead: "
        ~ "`timestamp as of '2026-01-31 12:00:00'`. These have the times of its versions: call show_commits(table => '"
        ~ relation.schema ~ '.' ~ relation.identifier ~ "')."
    ) -%}
{%- endmacro -%}


{%- macro _problem_of_hudi(node) -%}
    {%- set config = node.config -%}
    {%- if node.resource_type != 'model' or config.get('materialized') not in ('table', 'incremental') -%}
        {%- do return('Only models can have it, that are tables or incremental. Set file_format: delta') -%}
    {%- elif node.language == 'python' -%}
        {%- do return('A Python model cannot have it') -%}
    {%- elif not config.get('unique_key') -%}
        {%- do return('Set unique_key, which is the key of the table. Without a key, set file_format: delta') -%}
    {%- elif config.get('incremental_strategy') not in (none, 'merge')
        or (config.get('materialized') == 'incremental' and not config.get('incremental_strategy')) -%}
        {%- do return('Set incremental_strategy: merge') -%}
    {%- elif config.get('incremental_predicates') or config.get('predicates') -%}
        {%- do return('Remove incremental_predicates: its merge compares only the key') -%}
    {%- elif config.get('partition_by') or config.get('clustered_by') -%}
        {%- do return('Remove partition_by and clustered_by') -%}
    {%- elif config.get('full_refresh') is sameas false -%}
        {%- do return('Remove full_refresh: false. An erasure could not delete from the table') -%}
    {%- endif -%}
    {%- do return(tidemark.problem_of_place(node, 'Only embedded Spark builds such tables')) -%}
{%- endmacro -%}
