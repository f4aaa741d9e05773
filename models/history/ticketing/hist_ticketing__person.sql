{{ tidemark.history_from_changes(
    ref('stg_ticketing__person'),
    tidemark.feed('ticketing', 'person'),
) }}
