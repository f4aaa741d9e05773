{{ history_from_changes(
    ref('stg_bistro__orders'),
    feed('bistro', 'orders'),
) }}
