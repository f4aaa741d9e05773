{{ history_from_changes(
    ref('stg_ticketing__sport_location'),
    feed('ticketing', 'sport_location'),
) }}
