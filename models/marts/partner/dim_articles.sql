with

articles as (

    select * from {{ ref('cur_partner__price_list') }}

)

select
    article_id,
    article_name,
    price,
    currency,
    price_from,
    price_until,
    _load_id as price_list_version

from articles
