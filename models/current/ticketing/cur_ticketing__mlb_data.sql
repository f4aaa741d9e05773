{{ config(unique_key=['mlb_id']) }}

{{ tidemark.current_from_changes(
    ref('stg_ticketing__mlb_data'),
    tidemark.feed('ticketing', 'mlb_data'),
) }}
