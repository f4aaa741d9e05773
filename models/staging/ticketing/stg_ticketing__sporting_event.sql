{{ typed_changes(
    source('ticketing', 'sporting_event'),
    feed('ticketing', 'sporting_event'),
) }}
