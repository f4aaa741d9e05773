select
    orders.id,
    orders.lines

from {{ ref('cur_bistro__orders') }} as orders

left anti join {{ ref('fct_order_lines') }} as known
    on orders.id = known.order_id

where orders.lines <> '[]'
