{{ tidemark.history_from_changes(
    ref('stg_movies__movies'),
    tidemark.feed('movies', 'movies'),
) }}
