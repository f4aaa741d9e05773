{{ tidemark.history_from_changes(
    ref('stg_bistro__orders'),
    tidemark.feed('bistro', 'orders'),
) }}
