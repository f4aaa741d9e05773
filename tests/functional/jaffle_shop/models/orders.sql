select order_id, customer from {{ ref('stg_orders') }}
