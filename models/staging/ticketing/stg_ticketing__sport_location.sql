{{ tidemark.typed_changes(
    source('ticketing', 'sport_location'),
    tidemark.feed('ticketing', 'sport_location'),
) }}
