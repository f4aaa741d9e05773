{{ tidemark.typed_changes(
    source('growth', 'sales_pipeline'),
    tidemark.feed('growth', 'sales_pipeline'),
) }}
