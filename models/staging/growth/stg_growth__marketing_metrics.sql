{{ typed_changes(
    source('growth', 'marketing_metrics'),
    feed('growth', 'marketing_metrics'),
) }}
