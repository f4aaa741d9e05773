{{ typed_changes(
    source('fleet', 'vehicles'),
    feed('fleet', 'vehicles'),
) }}
