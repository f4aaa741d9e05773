{{ config(unique_key=['mlb_id']) }}

{{ current_from_changes(
    ref('stg_ticketing__mlb_data'),
    feed('ticketing', 'mlb_data'),
) }}
