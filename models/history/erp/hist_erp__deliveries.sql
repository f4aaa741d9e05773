{{ tidemark.history_from_changes(
    ref('stg_erp__deliveries'),
    tidemark.feed('erp', 'deliveries'),
) }}
