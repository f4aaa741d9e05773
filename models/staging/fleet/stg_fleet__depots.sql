{{ typed_changes(
    source('fleet', 'depots'),
    feed('fleet', 'depots'),
) }}
