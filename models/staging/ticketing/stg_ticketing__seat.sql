{{ tidemark.typed_changes(
    source('ticketing', 'seat'),
    tidemark.feed('ticketing', 'seat'),
) }}
