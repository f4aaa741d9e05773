{{ config(unique_key=['site_id']) }}

{{ tidemark.current_from_changes(
    ref('stg_shop__customer_sites'),
    tidemark.feed('shop', 'customer_sites'),
) }}
