{{ tidemark.typed_changes(
    source('erp', 'deliveries'),
    tidemark.feed('erp', 'deliveries'),
) }}
