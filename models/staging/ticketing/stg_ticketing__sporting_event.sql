{{ tidemark.typed_changes(
    source('ticketing', 'sporting_event'),
    tidemark.feed('ticketing', 'sporting_event'),
) }}
