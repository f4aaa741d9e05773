with

versions as (

    select * from {{ ref('hist_insurance__policies') }}

),

with_previous as (

    select
        version_key,
        policy_id,
        valid_from as changed_at,
        insured_value,
        lag(insured_value) over (
            partition by policy_id
            order by valid_from
        ) as previous_insured_value

    from versions

)

select
    version_key,
    policy_id,
    changed_at,
    previous_insured_value,
    insured_value,
    insured_value - previous_insured_value as value_change

from with_previous

where insured_value <> previous_insured_value
