with

vehicles as (

    select * from {{ ref('cur_fleet__vehicles') }}

),

depots as (

    select * from {{ ref('cur_fleet__depots') }}

),

-- depot became home_depot: a vehicle that has not changed since has the old one alone.
renamed as (

    select
        vehicle_id,
        plate,
        coalesce(home_depot, depot) as depot,
        mileage as last_known_mileage

    from vehicles

)

select
    renamed.vehicle_id,
    renamed.plate,
    renamed.depot,
    depots.city as depot_city,
    renamed.last_known_mileage

from renamed

left join depots
    on renamed.depot = depots.depot
