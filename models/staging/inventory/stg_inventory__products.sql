{{ tidemark.typed_changes(
    source('inventory', 'products'),
    tidemark.feed('inventory', 'products'),
) }}
