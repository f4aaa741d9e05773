{{ history_from_changes(
    ref('stg_ticketing__person'),
    feed('ticketing', 'person'),
) }}
