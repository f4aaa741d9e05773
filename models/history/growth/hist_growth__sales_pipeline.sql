{{ history_from_changes(
    ref('stg_growth__sales_pipeline'),
    feed('growth', 'sales_pipeline'),
) }}
