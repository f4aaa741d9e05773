with

days as (

    select explode(sequence(to_date('2020-01-01'), to_date('2030-12-31'))) as date_day

)

select
    date_day,
    year(date_day) as year_number,
    month(date_day) as month_number,
    weekday(date_day) + 1 as iso_day_of_week

from days
