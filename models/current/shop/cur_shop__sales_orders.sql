{{ config(unique_key=['order_id']) }}

{{ tidemark.current_from_changes(
    ref('stg_shop__sales_orders'),
    tidemark.feed('shop', 'sales_orders'),
) }}
