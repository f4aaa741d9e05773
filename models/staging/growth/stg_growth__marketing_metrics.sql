{{ tidemark.typed_changes(
    source('growth', 'marketing_metrics'),
    tidemark.feed('growth', 'marketing_metrics'),
) }}
