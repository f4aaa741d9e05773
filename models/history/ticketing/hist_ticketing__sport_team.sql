{{ tidemark.history_from_changes(
    ref('stg_ticketing__sport_team'),
    tidemark.feed('ticketing', 'sport_team'),
) }}
