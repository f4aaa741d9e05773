{{ history_from_changes(
    ref('stg_ticketing__seat'),
    feed('ticketing', 'seat'),
) }}
