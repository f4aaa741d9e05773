{{ tidemark.history_from_changes(
    ref('stg_shop__customers'),
    tidemark.feed('shop', 'customers'),
) }}
