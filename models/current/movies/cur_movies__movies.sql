{{ config(unique_key=['movie_id']) }}

{{ current_from_changes(
    ref('stg_movies__movies'),
    feed('movies', 'movies'),
) }}
