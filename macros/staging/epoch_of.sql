{#
    The number of the epoch that a time belongs to: how many of these times are not
    after it. Positions in a log are never compared across epochs.

    Landing renders this very macro, to compare within epochs. Hence plain Jinja only.
#}
{%- macro epoch_of(epochs, at) -%}
    {%- if epochs -%}
        size(filter(array(timestamp'{{ epochs | join("', timestamp'") }}'), since -> since <= {{ at }}))
    {%- else -%}
        0
    {%- endif -%}
{%- endmacro -%}
