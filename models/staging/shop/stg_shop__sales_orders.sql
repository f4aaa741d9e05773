{{ tidemark.typed_changes(
    source('shop', 'sales_orders'),
    tidemark.feed('shop', 'sales_orders'),
) }}
