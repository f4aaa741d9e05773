with

claims as (

    select * from {{ ref('claims') }}

),

with_policy_then as (

    select
        claims.claim_id,
        claims.policy_id,
        claims.lost_at,
        claims.peril,
        claims.claimed_amount,
        policies.version_key,
        policies.insured_value,
        case claims.peril
            when 'flood' then policies.flood_coverage
            when 'earthquake' then policies.earthquake_coverage
        end as coverage

    from claims

    {{ tidemark.left_join_as_of(
        ref('hist_insurance__policies'),
        alias='policies',
        on={'policy_id': 'claims.policy_id'},
        at='claims.lost_at',
    ) }}

)

select
    claim_id,
    policy_id,
    version_key,
    lost_at,
    peril,
    claimed_amount,
    coalesce(coverage = 'Y', false) as was_covered,
    if(coverage = 'Y', least(claimed_amount, insured_value), 0) as payable_amount

from with_policy_then
