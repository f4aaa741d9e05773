with

events as (

    select * from {{ ref('dim_sporting_events') }}

),

tickets as (

    select * from {{ ref('cur_ticketing__sporting_event_ticket') }}

),

purchases as (

    select * from {{ ref('cur_ticketing__ticket_purchase_hist') }}

),

sold as (

    select
        tickets.sporting_event_id,
        count(distinct purchases.sporting_event_ticket_id) as tickets_sold,
        count_if(purchases.transferred_from_id is not null) as tickets_sold_on,
        -- A payment between two persons is not revenue of the club.
        sum(if(purchases.transferred_from_id is null, purchases.purchase_price, 0)) as revenue

    from tickets

    inner join purchases
        on tickets.id = purchases.sporting_event_ticket_id

    group by tickets.sporting_event_id

),

offered as (

    select
        sporting_event_id,
        count(*) as tickets_offered

    from tickets

    group by sporting_event_id

)

select
    events.sporting_event_id,
    events.home_team_name,
    events.away_team_name,
    events.starts_at,
    coalesce(offered.tickets_offered, 0) as tickets_offered,
    coalesce(sold.tickets_sold, 0) as tickets_sold,
    coalesce(sold.tickets_sold_on, 0) as tickets_sold_on,
    cast(coalesce(sold.revenue, 0) as decimal(18, 2)) as revenue

from events

left join offered
    on events.sporting_event_id = offered.sporting_event_id

left join sold
    on events.sporting_event_id = sold.sporting_event_id
