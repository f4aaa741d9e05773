{{ typed_changes(
    source('ticketing', 'player'),
    feed('ticketing', 'player'),
) }}
