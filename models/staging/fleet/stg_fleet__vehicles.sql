{{ tidemark.typed_changes(
    source('fleet', 'vehicles'),
    tidemark.feed('fleet', 'vehicles'),
) }}
