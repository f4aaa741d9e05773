with

orders as (

    select * from {{ ref('cur_bistro__orders') }}

),

-- A table of its own for the array in the document.
lines as (

    select
        orders.id as order_id,
        exploded.place + 1 as line_number,
        orders.ordered_at,
        orders.customer_city,
        exploded.line

    from orders

    lateral view posexplode(
        from_json(orders.lines, 'array<struct<dish: string, quantity: int, price: decimal(8, 2)>>')
    ) exploded as place, line

)

select
    order_id,
    line_number,
    ordered_at,
    customer_city,
    line.dish as dish_name,
    line.quantity,
    line.price,
    cast(line.quantity * line.price as decimal(10, 2)) as amount

from lines
