{{ tidemark.history_from_changes(
    ref('stg_ticketing__sport_location'),
    tidemark.feed('ticketing', 'sport_location'),
) }}
