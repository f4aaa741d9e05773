{{ typed_changes(
    source('partner', 'price_list'),
    feed('partner', 'price_list'),
) }}
