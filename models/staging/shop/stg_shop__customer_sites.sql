{{ typed_changes(
    source('shop', 'customer_sites'),
    feed('shop', 'customer_sites'),
) }}
