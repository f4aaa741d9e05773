{#
    The scope of a table as it was known after a load: every change up to that load,
    independent of the current content of the table.
#}
{%- macro scope_until(load_id, feed={}) -%}
    {%- set until = load_id | int(-1) -%}
    {%- if execute and until < 0 -%}
        {%- do exceptions.raise_compiler_error(
            "The load must be a load_id of tidemark.ledger, a whole number, not '" ~ load_id ~ "'."
        ) -%}
    {%- endif -%}
    {%- for each in feed.feeds or [] if execute and each.table and feed.feeds | length > 1 -%}
        {%- do exceptions.raise_compiler_error(
            each.name ~ " has format: table and numbers its loads by itself, so a load_id does not say how much of each "
            ~ "feed was known. Query the table of one feed as of its load."
        ) -%}
    {%- endfor -%}
    {%- do return({
        'kind': 'everything',
        'watermark': 0,
        'truncates': true,
        'until': until,
    }) -%}
{%- endmacro -%}
