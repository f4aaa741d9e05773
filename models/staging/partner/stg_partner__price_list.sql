{{ tidemark.typed_changes(
    source('partner', 'price_list'),
    tidemark.feed('partner', 'price_list'),
) }}
