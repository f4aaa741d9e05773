{{ config(unique_key=['sport_location_id', 'seat_level', 'seat_section', 'seat_row', 'seat']) }}

{{ tidemark.current_from_changes(
    ref('stg_ticketing__seat'),
    tidemark.feed('ticketing', 'seat'),
) }}
