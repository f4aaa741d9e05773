{{ tidemark.typed_changes(
    source('shop', 'customer_sites'),
    tidemark.feed('shop', 'customer_sites'),
) }}
