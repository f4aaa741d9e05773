{{ config(unique_key=['customer_id']) }}

{{ tidemark.current_from_changes(
    ref('stg_shop__customers'),
    tidemark.feed('shop', 'customers'),
) }}
