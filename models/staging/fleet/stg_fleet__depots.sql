{{ tidemark.typed_changes(
    source('fleet', 'depots'),
    tidemark.feed('fleet', 'depots'),
) }}
