{#
    The oldest time that still is recent.

    The hub package moves its "now" by the offset of `dbt_date:time_zone`; only UTC is right for
    instants, and only UTC is what this says.
#}
{%- macro freshness_limit(datepart, interval) -%}
    {%- if var('dbt_date:time_zone', none) != 'UTC' -%}
        {%- do exceptions.raise_compiler_error(
            "dbt_expectations: set the variable 'dbt_date:time_zone' to 'UTC' in dbt_project.yml; "
            ~ "the stand-in knows no other time zone."
        ) -%}
    {%- endif -%}
    {%- do dbt_expectations.check_choice(
        'datepart',
        datepart | lower,
        ['second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year']
    ) -%}
    timestampadd({{ datepart }}, -1 * ({{ interval }}), current_timestamp())
{%- endmacro -%}
