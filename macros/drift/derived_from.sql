{#
    Record the settings that a table is derived with, and refuse to continue with a table
    that was derived with other settings: its rows would not match the new ones.

    The macro writes the settings as a comment into the compiled SQL. When dbt creates the
    table, the comment becomes a table property: see overrides/spark__tblproperties_clause.sql.
#}
{%- macro derived_from(feed, settings={}, changes=none, names={}) -%}
    {%- set now = tidemark._derivation(feed, settings) -%}
    {%- if names -%}
        {%- for name in feed.key if feed.columns[name].startswith('timestamp') -%}
            {%- do now.update({'times in version keys': 'microseconds'}) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- if execute and is_incremental() -%}
        {%- set known = tidemark._known_derivation(this) -%}
        {%- set drifted = [] -%}
        {#- A table of one feed, with nothing before it, has none of these. -#}
        {%- set settings_now = now.keys() | list + ['feeds', 'source column', 'before'] | reject('in', now) | list -%}
        {%- for name in ([] if known is none else settings_now) if known.get(name) != now.get(name) -%}
            {%- set was, is = known.get(name), now.get(name) -%}
            {%- set there = adapter.get_columns_in_relation(this) | map(attribute='name') | list -%}
            {%- if is is not string and is is not none and was is string and was -%}
                {#- The format of an older Tidemark. -#}
                {%- set was = is -%}
            {%- elif name == 'partial rows' -%}
                {%- set was, is = tidemark._partial_that_differ(was or {}, is, there, feed) -%}
            {%- elif name == 'columns left out' -%}
                {#- A column that the table never had does not count as missing. -#}
                {%- set was, is = was or [], is | select('in', (was or []) + there) | list -%}
            {%- elif name == 'times in version keys' -%}
                {%- set was = 'milliseconds, by an older Tidemark' if tidemark._cuts_times(changes, feed, names) else is -%}
            {%- endif -%}
            {#- Spark ignores the letter case of names. -#}
            {%- set same = was == is or (was is string and is is string and was | lower == is | lower) -%}
            {%- if not same -%}
                {%- do drifted.append(name ~ ' was ' ~ tidemark._as_text(was) ~ ' and is now ' ~ tidemark._as_text(is)) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- if drifted -%}
            {%- do exceptions.raise_compiler_error(
                this ~ " was built with other settings: " ~ drifted | join('; ') ~ ". Its rows would not match "
                ~ "the new ones, so nothing was written. Revert the change, or rebuild the table from "
                ~ "its log: dbt build --full-refresh --select " ~ model.name
                ~ (
                    " (version keys change only for keys with times finer than a millisecond)."
                    if 'times in version keys was' in drifted | last
                    else " (version keys stay the same while the table's key does)."
                )
            ) -%}
        {%- endif -%}
    {%- endif -%}
    -- tidemark.derived_from: {{ tidemark._with_broken_words(tojson(now, sort_keys=true)) }}
{%- endmacro -%}


{#- Spark hides the value of a property that has one of these words, so a mark breaks them. -#}
{%- macro _with_broken_words(text) -%}
    {%- set inside = '(?i)(?<=s)(?=ecret)|(?<=p)(?=assword)|(?<=t)(?=oken)|(?<=access)(?=[.]?key)|(?<=u)(?=rl)' -%}
    {%- do return(modules.re.sub(inside, '¦', text)) -%}
{%- endmacro -%}


{%- macro _derivation(feed, settings) -%}
    {%- set key = [] -%}
    {%- for name in feed.key -%}
        {%- do key.append(name ~ ' ' ~ tidemark._family(feed.columns[name])) -%}
    {%- endfor -%}
    {%- set is_of_several = feed.source_column or feed.feeds and feed.feeds | length > 1 -%}
    {%- set sequences, left_out = [], [] -%}
    {%- for each in feed.feeds or [feed] -%}
        {%- do sequences.append((each.name ~ ': ' if is_of_several else '') ~ tidemark._ordered_by(each)) -%}
        {%- for name in each.columns if name not in each.kept and name not in left_out -%}
            {%- do left_out.append(name) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set partial = {} -%}
    {%- for name in feed.columns if feed.partial -%}
        {%- set condition = feed.partial.get(name, '') | replace("'", '') | replace('`', '') -%}
        {%- do partial.update({name: condition}) -%}
    {%- endfor -%}
    {%- set derivation = {
        'key': key | join(', '),
        'sequence': sequences | sort | join('; '),
        'columns left out': left_out | sort,
        'partial rows': partial,
    } -%}
    {%- if is_of_several -%}
        {%- set names = [] -%}
        {%- for each in feed.feeds -%}
            {%- do names.append(each.name ~ (' as ' ~ feed.source_values[loop.index0] if feed.source_column else '')) -%}
        {%- endfor -%}
        {%- do derivation.update({'feeds': names | sort | join(', ')}) -%}
    {%- endif -%}
    {%- for name, value in {'source column': feed.source_column, 'before': feed.before}.items() if value -%}
        {%- do derivation.update({name: value | replace("'", '')}) -%}
    {%- endfor -%}
    {%- do derivation.update(settings) -%}
    {%- do return(derivation) -%}
{%- endmacro -%}


{%- macro _ordered_by(feed) -%}
    {%- set sequence = [] -%}
    {%- for name in feed.sequence -%}
        {%- do sequence.append(name ~ ' ' ~ feed.columns[name]) -%}
    {%- endfor -%}
    {%- set ordered_by = sequence | join(', ')
        or ('place in the source' if feed.is_placed else 'place in the files') -%}
    {%- do return(([ordered_by] + (feed.epochs or [])) | join(', anew since ')) -%}
{%- endmacro -%}


{#
    The differences between the old and the new settings of partial rows. A column that was added
    after the table was created does not count: all its rows are derived in the same way.
#}
{%- macro _partial_that_differ(was, is, there, feed) -%}
    {%- set before, after = [], [] -%}
    {%- for name in feed.columns if name in was or (not was and name in there) -%}
        {%- set old, new = was.get(name, ''), is.get(name, '') -%}
        {%- if old != new -%}
            {%- if old -%}{%- do before.append(name ~ ' if ' ~ old) -%}{%- endif -%}
            {%- if new -%}{%- do after.append(name ~ ' if ' ~ new) -%}{%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return([before, after]) -%}
{%- endmacro -%}


{#
    Whether the version keys of a history cut the timestamps of its key to milliseconds. Then two
    keys can share a version key, and one row may have replaced the other. This is the case if a key
    with a timestamp finer than a millisecond has landed, and no version has the version key that
    `version_key` gives for it.
#}
{%- macro _cuts_times(changes, feed, names) -%}
    {%- set key = tidemark.quoted(feed.key) -%}
    {%- set finer = [] -%}
    {%- for name in feed.key if feed.columns[name].startswith('timestamp') -%}
        {%- do finer.append("date_trunc('millisecond', `" ~ name ~ "`) <> `" ~ name ~ "`") -%}
    {%- endfor -%}
    {%- set lacking -%}
        select 1

        from (
            select distinct {{ key }}
            from {{ changes }}
            where
                not _is_delete
                and ({{ finer | join(' or ') }})
                and _load_id <= (select max(_load_id) from {{ this }})
        )

        left anti join (
            select {{ key }}
            from {{ this }}
            where {{ names.version_key }} = {{ tidemark.version_key(feed, names.valid_from, names.known_from) }}
        ) using ({{ key }})

        limit 1
    {%- endset -%}
    {%- do return(run_query(lacking).rows | length > 0) -%}
{%- endmacro -%}


{%- macro _as_text(value) -%}
    {%- do return((value if value is string else (value or []) | join(', ')) or 'not set') -%}
{%- endmacro -%}


{#- A key with a wider type of the same family has the same text, so its version keys are the same. -#}
{%- macro _family(type) -%}
    {%- if type in ('tinyint', 'smallint', 'int', 'integer', 'bigint') -%}
        {%- do return('integer') -%}
    {%- elif type.startswith('decimal') -%}
        {%- do return('decimal with scale ' ~ type[8:-1].split(',')[1] | trim) -%}
    {%- endif -%}
    {%- do return(type) -%}
{%- endmacro -%}


{#- None for a table that a different kind of model or an older Tidemark built. -#}
{%- macro _known_derivation(table) -%}
    {%- set known = tidemark._properties(table).get('tidemark.derived_from') -%}
    {%- do return(fromjson(known | replace('¦', '')) if known else none) -%}
{%- endmacro -%}
