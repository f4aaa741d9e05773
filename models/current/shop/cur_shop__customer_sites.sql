{{ config(unique_key=['site_id']) }}

{{ current_from_changes(
    ref('stg_shop__customer_sites'),
    feed('shop', 'customer_sites'),
) }}
