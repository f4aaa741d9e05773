{{ tidemark.typed_changes(
    source('movies', 'movies'),
    tidemark.feed('movies', 'movies'),
) }}
