{{ config(unique_key=['customer_id']) }}

{{ current_from_changes(
    ref('stg_shop__customers'),
    feed('shop', 'customers'),
) }}
