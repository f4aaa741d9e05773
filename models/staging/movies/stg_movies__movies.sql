{{ typed_changes(
    source('movies', 'movies'),
    feed('movies', 'movies'),
) }}
