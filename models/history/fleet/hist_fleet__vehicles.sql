{{ history_from_changes(
    ref('stg_fleet__vehicles'),
    feed('fleet', 'vehicles'),
) }}
