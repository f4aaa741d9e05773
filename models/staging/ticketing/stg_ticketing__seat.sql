{{ typed_changes(
    source('ticketing', 'seat'),
    feed('ticketing', 'seat'),
) }}
