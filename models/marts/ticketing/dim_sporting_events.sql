with

events as (

    select * from {{ ref('cur_ticketing__sporting_event') }}

),

teams as (

    select * from {{ ref('cur_ticketing__sport_team') }}

),

venues as (

    select * from {{ ref('cur_ticketing__sport_location') }}

)

select
    events.id as sporting_event_id,
    events.sport_type_name,
    home_teams.name as home_team_name,
    away_teams.name as away_team_name,
    venues.name as venue_name,
    venues.city as venue_city,
    events.start_date_time as starts_at,
    events.sold_out as is_sold_out

from events

left join teams as home_teams
    on events.home_team_id = home_teams.id

left join teams as away_teams
    on events.away_team_id = away_teams.id

left join venues
    on events.location_id = venues.id
