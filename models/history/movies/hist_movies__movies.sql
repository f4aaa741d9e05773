{{ history_from_changes(
    ref('stg_movies__movies'),
    feed('movies', 'movies'),
) }}
