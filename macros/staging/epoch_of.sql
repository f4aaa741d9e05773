{#
    The number of the epoch that a time belongs to: the number of these times that are not
    after it. Positions in a log are never compared across epochs.

    Landing renders this same macro, to compare within epochs. So use only plain Jinja.
#}
{%- macro epoch_of(epochs, at) -%}
    {%- if epochs -%}
        size(filter(array(timestamp'{{ epochs | join("', timestamp'") }}'), since -> since <= {{ at }}))
    {%- else -%}
        0
    {%- endif -%}
{%- endmacro -%}
