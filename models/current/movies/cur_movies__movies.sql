{{ config(unique_key=['movie_id']) }}

{{ tidemark.current_from_changes(
    ref('stg_movies__movies'),
    tidemark.feed('movies', 'movies'),
) }}
