{{ history_from_changes(
    ref('stg_ticketing__sporting_event_ticket'),
    feed('ticketing', 'sporting_event_ticket'),
) }}
