{#
    The feed's columns of typed change events, and `_left_out` for a feed with partial updates.
    `typed` has the expression that reads each column with its type.

    For a delete, only the key and the sequence are read. A column that an update leaves out is
    not read either: what stands in its place need not fit the type.
#}
{%- macro event_columns(feed, typed) -%}
    {%- for name in feed.columns %}
    {%- if name in feed.key or name in feed.sequence %}
    {{ typed[name] }} as `{{ name }}`,
    {%- elif name in feed.partial %}
    if(
        _is_delete or (_op = 'U' and ({{ feed.partial[name] }})),
        null,
        {{ typed[name] }}
    ) as `{{ name }}`,
    {%- else %}
    if(_is_delete, null, {{ typed[name] }}) as `{{ name }}`,
    {%- endif %}
    {%- endfor %}
    {%- if feed.partial %}
    if(
        _op = 'U',
        array_compact(array(
            {%- for name, left_out in feed.partial.items() %}
            if({{ left_out }}, '{{ name }}', null)
            {%- if not loop.last %},{% endif %}
            {%- endfor %}
        )),
        cast(array() as array<string>)
    ) as _left_out,
    {%- endif %}
{%- endmacro -%}
