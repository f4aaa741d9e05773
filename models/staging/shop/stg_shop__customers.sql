{{ typed_changes(
    source('shop', 'customers'),
    feed('shop', 'customers'),
) }}
