with

vehicles as (

    select * from {{ ref('cur_fleet__vehicles') }}

),

depots as (

    select * from {{ ref('cur_fleet__depots') }}

),

versions as (

    select * from {{ ref('hist_fleet__vehicles') }}

),

-- mileage was dropped: if a vehicle has changed since, only its history has the mileage.
last_told as (

    select
        vehicle_id,
        max_by(mileage, valid_from) as mileage

    from versions

    where mileage is not null

    group by vehicle_id

),

-- depot became home_depot: if a vehicle has not changed since, it has only the old column.
renamed as (

    select
        vehicle_id,
        plate,
        coalesce(home_depot, depot) as depot

    from vehicles

)

select
    renamed.vehicle_id,
    renamed.plate,
    renamed.depot,
    depots.city as depot_city,
    last_told.mileage as last_known_mileage

from renamed

left join depots
    on renamed.depot = depots.depot

left join last_told
    on renamed.vehicle_id = last_told.vehicle_id
