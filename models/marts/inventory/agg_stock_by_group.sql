with

products as (

    select * from {{ ref('cur_inventory__products') }}

),

product_groups as (

    select * from {{ ref('dim_product_groups') }}

),

by_group as (

    select
        product_groups.group_key as product_group_id,
        max_by(products.product_name, products.product_id = product_groups.group_key)
            as product_name,
        products.category,
        count(*) as product_count,
        cast(sum(products.quantity_available) as bigint) as quantity_available

    from products

    inner join product_groups
        on products.product_id = product_groups.product_id

    group by product_groups.group_key, products.category

)

select
    product_group_id,
    product_name,
    category,
    product_count,
    quantity_available

from by_group
