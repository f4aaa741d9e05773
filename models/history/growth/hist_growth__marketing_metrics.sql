{{ tidemark.history_from_changes(
    ref('stg_growth__marketing_metrics'),
    tidemark.feed('growth', 'marketing_metrics'),
) }}
