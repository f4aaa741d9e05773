{{ tidemark.history_from_changes(
    ref('stg_growth__sales_pipeline'),
    tidemark.feed('growth', 'sales_pipeline'),
) }}
