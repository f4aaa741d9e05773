with

growth as (

    select * from {{ ref('agg_growth_by_month', v=2) }}

)

select
    year_number,
    month_number,
    paid_conversion,
    weighted_revenue

from growth

order by year_number, month_number
