{{ tidemark.history_from_changes(
    ref('stg_ticketing__seat'),
    tidemark.feed('ticketing', 'seat'),
) }}
