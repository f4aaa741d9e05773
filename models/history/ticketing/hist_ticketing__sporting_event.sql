{{ tidemark.history_from_changes(
    ref('stg_ticketing__sporting_event'),
    tidemark.feed('ticketing', 'sporting_event'),
) }}
