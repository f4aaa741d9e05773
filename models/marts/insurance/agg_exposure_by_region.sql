with

policies as (

    select * from {{ ref('cur_insurance__policies') }}

),

by_region as (

    select
        -- The source spells regions inconsistently: WEST and West are the same region.
        initcap(region_name) as region_name,
        count(*) as policy_count,
        cast(sum(insured_value) as bigint) as insured_value,
        cast(sum(if(flood_coverage = 'Y', insured_value, 0)) as bigint) as flood_insured_value,
        cast(sum(if(earthquake_coverage = 'Y', insured_value, 0)) as bigint)
            as earthquake_insured_value

    from policies

    group by initcap(region_name)

)

select
    region_name,
    policy_count,
    insured_value,
    flood_insured_value,
    earthquake_insured_value

from by_region
