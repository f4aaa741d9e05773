{#
    Join facts to the version of a history that was valid at the time of the fact: the
    dimension as it was then, not as it is now.
#}
{%- macro left_join_as_of(history, alias, on, at, known_at=none, column_names={}) -%}
    {%- if not on -%}
        {%- do exceptions.raise_compiler_error(
            "left_join_as_of: `on` must map the history's key columns to columns of the fact, such as "
            ~ "{'policy_id': 'claims.policy_id'}."
        ) -%}
    {%- endif -%}
    {%- set names = {} -%}
    {%- for name in ['valid_from', 'valid_to', 'known_from', 'known_to'] -%}
        {%- do names.update({name: alias ~ '.' ~ (column_names or {}).get(name, name)}) -%}
    {%- endfor -%}
    left join {{ history }} as {{ alias }}
        on
        {%- for own, fact in on.items() %}
            {{ 'and ' if not loop.first }}{{ alias }}.{{ own }} = {{ fact }}
        {%- endfor %}
            and {{ names.valid_from }} <= {{ at }}
            and ({{ names.valid_to }} > {{ at }} or {{ names.valid_to }} is null)
        {%- if known_at %}
            and {{ names.known_from }} <= {{ known_at }}
            and ({{ names.known_to }} > {{ known_at }} or {{ names.known_to }} is null)
        {%- endif %}
{%- endmacro -%}
