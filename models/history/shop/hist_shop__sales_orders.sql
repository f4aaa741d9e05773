{{ history_from_changes(
    ref('stg_shop__sales_orders'),
    feed('shop', 'sales_orders'),
) }}
