{{ tidemark.history_from_changes(
    ref('stg_partner__price_list'),
    tidemark.feed('partner', 'price_list'),
) }}
