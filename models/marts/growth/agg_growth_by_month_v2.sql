with

pipeline as (

    select * from {{ ref('fct_sales_pipeline') }}

),

marketing as (

    select * from {{ ref('cur_growth__marketing_metrics') }}

),

sales_by_month as (

    select
        year_number,
        month_number,
        sum(weighted_revenue) as weighted_revenue

    from pipeline

    group by year_number, month_number

),

marketing_by_month as (

    select
        year(date) as year_number,
        month(date) as month_number,
        sum(paid_conversion) as paid_conversion,
        sum(spend) as spend

    from marketing

    group by year(date), month(date)

)

select
    coalesce(sales_by_month.year_number, marketing_by_month.year_number) as year_number,
    coalesce(sales_by_month.month_number, marketing_by_month.month_number) as month_number,
    coalesce(marketing_by_month.paid_conversion, 0) as paid_conversion,
    cast(coalesce(sales_by_month.weighted_revenue, 0) as decimal(18, 2)) as weighted_revenue,
    cast(coalesce(marketing_by_month.spend, 0) as decimal(18, 2)) as spend

from sales_by_month

full join marketing_by_month
    on
        sales_by_month.year_number = marketing_by_month.year_number
        and sales_by_month.month_number = marketing_by_month.month_number

order by year_number, month_number
