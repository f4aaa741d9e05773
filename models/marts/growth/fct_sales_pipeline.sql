{{ config(partition_by=['year_number', 'month_number', 'day_number']) }}

with

pipeline as (

    select * from {{ ref('cur_growth__sales_pipeline') }}

),

cleaned as (

    select
        date as status_date,
        lead_name,
        salesperson,
        segment,
        region,
        opportunity_stage,
        target_close as target_close_date,
        -- The sheet formats amounts of money: $12,000.00
        cast(regexp_replace(forecasted_monthly_revenue, '[$,]', '') as decimal(12, 2))
            as forecasted_monthly_revenue,
        cast(regexp_replace(weighted_revenue, '[$,]', '') as decimal(12, 2)) as weighted_revenue,
        coalesce(active_opportunity, false) as is_active

    from pipeline

)

select
    status_date,
    lead_name,
    salesperson,
    segment,
    region,
    opportunity_stage,
    target_close_date,
    forecasted_monthly_revenue,
    weighted_revenue,
    is_active,
    year(status_date) as year_number,
    month(status_date) as month_number,
    day(status_date) as day_number

from cleaned
