{{ tidemark.history_from_changes(
    ref('stg_ticketing__player'),
    tidemark.feed('ticketing', 'player'),
) }}
