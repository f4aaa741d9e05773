with

deliveries as (

    select * from {{ ref('cur_erp__deliveries') }}

),

by_material as (

    select
        plant,
        material,
        count(distinct delivery) as delivery_count,
        cast(sum(quantity) as decimal(18, 3)) as quantity

    from deliveries

    group by plant, material

)

select
    plant,
    material,
    delivery_count,
    quantity

from by_material
