{{ tidemark.typed_changes(
    source('bistro', 'orders'),
    tidemark.feed('bistro', 'orders'),
) }}
