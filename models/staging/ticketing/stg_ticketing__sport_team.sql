{{ typed_changes(
    source('ticketing', 'sport_team'),
    feed('ticketing', 'sport_team'),
) }}
