{{ tidemark.history_from_changes(
    ref('stg_fleet__vehicles'),
    tidemark.feed('fleet', 'vehicles'),
) }}
