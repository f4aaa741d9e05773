{{ typed_changes(
    source('growth', 'sales_pipeline'),
    feed('growth', 'sales_pipeline'),
) }}
