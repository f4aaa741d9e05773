{{ typed_changes(
    source('inventory', 'products'),
    feed('inventory', 'products'),
) }}
