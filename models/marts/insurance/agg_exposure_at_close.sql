with

policies as (

    {{ tidemark.current_as_of_load(
        ref('stg_insurance__policies'),
        tidemark.feed('insurance', 'policies'),
        var('insurance_closing_load', 1),
    ) | indent(4) }}

)

select
    state_code,
    count(*) as policy_count,
    cast(sum(insured_value) as bigint) as insured_value

from policies

group by state_code
