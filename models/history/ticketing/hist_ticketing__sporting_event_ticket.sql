{{ tidemark.history_from_changes(
    ref('stg_ticketing__sporting_event_ticket'),
    tidemark.feed('ticketing', 'sporting_event_ticket'),
) }}
