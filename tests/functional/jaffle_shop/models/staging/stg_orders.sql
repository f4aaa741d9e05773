select id as order_id, customer from {{ ref('raw_orders') }}
