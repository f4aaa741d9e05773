{{ typed_changes(
    source('shop', 'sales_orders'),
    feed('shop', 'sales_orders'),
) }}
