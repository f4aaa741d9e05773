{{ tidemark.typed_changes(
    source('ticketing', 'person'),
    tidemark.feed('ticketing', 'person'),
) }}
