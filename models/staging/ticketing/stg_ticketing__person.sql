{{ typed_changes(
    source('ticketing', 'person'),
    feed('ticketing', 'person'),
) }}
