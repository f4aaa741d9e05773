{{ tidemark.history_from_changes(
    ref('stg_fleet__depots'),
    tidemark.feed('fleet', 'depots'),
) }}
