with

movies as (

    select * from {{ ref('cur_movies__movies') }}

),

by_decade as (

    select
        cast(floor(released / 10) * 10 as int) as decade,
        count(*) as movie_count,
        cast(round(avg(rating), 2) as decimal(4, 2)) as average_rating,
        max_by(title, struct(rating, -movie_id)) as best_title

    from movies

    where released is not null

    group by cast(floor(released / 10) * 10 as int)

)

select
    decade,
    movie_count,
    average_rating,
    best_title

from by_decade
