{{ tidemark.history_from_changes(
    ref('stg_shop__customer_sites'),
    tidemark.feed('shop', 'customer_sites'),
) }}
