{{ tidemark.typed_changes(
    source('ticketing', 'sporting_event_ticket'),
    tidemark.feed('ticketing', 'sporting_event_ticket'),
) }}
