{{ history_from_changes(
    ref('stg_shop__customers'),
    feed('shop', 'customers'),
) }}
