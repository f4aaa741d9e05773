{{ tidemark.typed_changes(
    source('shop', 'customers'),
    tidemark.feed('shop', 'customers'),
) }}
