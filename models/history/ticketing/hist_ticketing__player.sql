{{ history_from_changes(
    ref('stg_ticketing__player'),
    feed('ticketing', 'player'),
) }}
