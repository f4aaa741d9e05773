{#
    The rows of a table, with the personal columns masked for everyone but the roles that may see
    them. A column is tagged once, where it arrives: the tag counts for every column of the same
    name that is built from it. If several tags hide a column, the strictest counts, so a tag further
    down can hide more, but never show more.
#}
{%- macro masked(relation, role) -%}
    {%- if not execute -%}
        {{ return('select * from ' ~ relation) }}
    {%- endif -%}
    {%- set hidden = tidemark._hidden_columns(tidemark._node_of(relation), role) -%}
    {%- set columns = tidemark._columns_of_all_rows(relation) -%}
    {%- if not columns -%}
        {#- It is not built yet, as when dbt compiles a new project. -#}
        {{ return('select * from ' ~ relation ~ ' where false') }}
    {%- endif -%}
    select
    {%- for column in columns %}
        {% if column.name | lower in hidden -%}
            {{ tidemark._masked_value(column, hidden[column.name | lower], relation) }} as {{ column.quoted }}
        {%- else -%}
            {{ column.quoted }}
        {%- endif -%}
        {{ ',' if not loop.last }}
    {%- endfor %}

    from {{ relation }}
{%- endmacro -%}


{#- The node or source that the view selects from. With `--defer`, it may be in another schema. -#}
{%- macro _node_of(relation) -%}
    {%- set found = [] -%}
    {%- for name in model.depends_on.nodes -%}
        {%- set node = graph.nodes.get(name) or graph.sources.get(name) -%}
        {%- if (node.get('alias') or node.get('identifier')) | lower == relation.identifier | lower
            and node.config.get('materialized') != 'ephemeral' -%}
            {%- do found.append(node) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for node in found if found | length == 1 or node.schema | lower == relation.schema | lower -%}
        {%- do return(node) -%}
    {%- endfor -%}
    {%- do exceptions.raise_compiler_error(
        "masked: the view does not select from " ~ relation ~ ". Pass ref('...') of a model, a seed or a "
        ~ "snapshot that is not ephemeral, or source('...')."
    ) -%}
{%- endmacro -%}


{#- The names, in lower case, of the columns that are hidden from a role, each with its mask. -#}
{%- macro _hidden_columns(node, role) -%}
    {%- set hidden, pending, seen = {}, [node], [node.unique_id] -%}
    {#- A loop over a list also sees what is appended to it. -#}
    {%- for each in pending -%}
        {%- for column in each.columns.values() -%}
            {%- set mask = tidemark._mask_for(role, column, each) -%}
            {%- if mask -%}
                {%- do tidemark._hide(hidden, column.name, mask) -%}
                {#- The surrogate key of a version is a hash of the key. -#}
                {%- set key = each.config.get('meta', {}).get('feed', {}).get('key', []) -%}
                {%- set key = [key] if key is string else key -%}
                {%- if mask != 'hash' and column.name | lower in key | map('lower') -%}
                    {%- do tidemark._hide(hidden, 'version_key', 'null') -%}
                {%- endif -%}
            {%- endif -%}
        {%- endfor -%}
        {%- for name in each.get('depends_on', {}).get('nodes', []) if name not in seen -%}
            {%- do seen.append(name) -%}
            {%- do pending.append(graph.nodes.get(name) or graph.sources[name]) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do return(hidden) -%}
{%- endmacro -%}


{%- macro _hide(hidden, name, mask) -%}
    {%- set by_strictness = ['partial', 'hash', 'null'] -%}
    {%- set before = hidden.get(name | lower) -%}
    {%- if not before or by_strictness.index(before) < by_strictness.index(mask) -%}
        {%- do hidden.update({name | lower: mask}) -%}
    {%- endif -%}
{%- endmacro -%}


{#- What a role sees of a column; none if it sees the value. -#}
{%- macro _mask_for(role, column, node) -%}
    {%- set tags = {} -%}
    {%- do tags.update(column.get('meta') or {}) -%}
    {%- do tags.update((column.get('config') or {}).get('meta') or {}) -%}
    {%- set where = node.original_file_path ~ ", " ~ node.name ~ "." ~ column.name -%}
    {%- if 'personal' not in tags -%}
        {%- if 'shown_to' in tags -%}
            {%- do exceptions.raise_compiler_error(
                where ~ ": `shown_to` needs a `personal`: partial, hash or 'null'."
            ) -%}
        {%- endif -%}
        {%- do return(none) -%}
    {%- endif -%}
    {#- YAML reads a null without quotes as none. -#}
    {%- set mask = 'null' if tags.personal is none else tags.personal -%}
    {%- if mask not in ('partial', 'hash', 'null') -%}
        {%- do exceptions.raise_compiler_error(
            where ~ ": `personal` is " ~ mask ~ ". Use partial, hash or 'null'."
        ) -%}
    {%- endif -%}
    {%- set roles = tags.get('shown_to') or [] -%}
    {%- set roles = [roles] if roles is string else roles -%}
    {%- do return(none if role in roles else mask) -%}
{%- endmacro -%}


{%- macro _masked_value(column, mask, relation) -%}
    {%- set type = column.dtype | lower -%}
    {%- if mask == 'null' -%}
        cast(null as {{ type }})
    {%- elif mask == 'hash' -%}
        {%- if type.startswith(('string', 'varchar', 'char')) or type == 'binary' -%}
            sha2({{ column.quoted }}, 256)
        {%- else -%}
            sha2(cast({{ column.quoted }} as string), 256)
        {%- endif -%}
    {%- elif type.startswith(('string', 'varchar', 'char')) -%}
        concat(left({{ column.quoted }}, 1), '***')
    {%- else -%}
        {%- do exceptions.raise_compiler_error(
            "masked: " ~ column.name ~ " of " ~ relation ~ " is a " ~ type
            ~ ". `personal: partial` is for text. Use hash or 'null'."
        ) -%}
    {%- endif -%}
{%- endmacro -%}
