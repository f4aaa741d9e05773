{{ typed_changes(
    source('ticketing', 'sporting_event_ticket'),
    feed('ticketing', 'sporting_event_ticket'),
) }}
