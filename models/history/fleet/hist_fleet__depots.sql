{{ history_from_changes(
    ref('stg_fleet__depots'),
    feed('fleet', 'depots'),
) }}
