{{ tidemark.typed_changes(
    source('ticketing', 'sport_team'),
    tidemark.feed('ticketing', 'sport_team'),
) }}
