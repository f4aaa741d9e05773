{{ config(unique_key=['id']) }}

{{ current_from_changes(
    ref('stg_ticketing__sporting_event'),
    feed('ticketing', 'sporting_event'),
) }}
