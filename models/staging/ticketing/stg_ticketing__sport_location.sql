{{ typed_changes(
    source('ticketing', 'sport_location'),
    feed('ticketing', 'sport_location'),
) }}
