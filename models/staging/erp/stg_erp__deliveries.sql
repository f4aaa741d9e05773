{{ typed_changes(
    source('erp', 'deliveries'),
    feed('erp', 'deliveries'),
) }}
