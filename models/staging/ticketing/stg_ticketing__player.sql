{{ tidemark.typed_changes(
    source('ticketing', 'player'),
    tidemark.feed('ticketing', 'player'),
) }}
