with

orders as (

    select * from {{ ref('cur_bistro__orders') }}

),

parsed as (

    select
        id as order_id,
        ordered_at,
        customer_city,
        from_json(lines, 'array<struct<dish: string, quantity: int, price: decimal(8, 2)>>')
            as order_lines

    from orders

),

-- The array in the document becomes a separate table.
lines as (

    select
        order_id,
        ordered_at,
        customer_city,
        posexplode(order_lines) as (place, line)

    from parsed

)

select
    lines.order_id,
    lines.place + 1 as line_number,
    lines.ordered_at,
    lines.customer_city,
    lines.line.dish as dish_name,
    lines.line.quantity,
    lines.line.price,
    cast(lines.line.quantity * lines.line.price as decimal(10, 2)) as amount

from lines
