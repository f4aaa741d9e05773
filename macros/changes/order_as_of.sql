{#
    The order of a change as it was known after a load. A reload moves the changes in
    later files after itself. A reload that was not yet known moves nothing.
#}
{%- macro order_as_of(feed, load_id) -%}
    {%- if feed.has_generations -%}
        named_struct(
            'phase',
            _order.phase - 2 * size(filter(_after_reloads, reloaded_by -> reloaded_by > {{ load_id }})),
            'sequence', _order.sequence,
            'file_at', _order.file_at,
            'file', _order.file,
            'position', _order.position,
            'load_id', _order.load_id
        )
    {%- else -%}
        _order
    {%- endif -%}
{%- endmacro -%}
