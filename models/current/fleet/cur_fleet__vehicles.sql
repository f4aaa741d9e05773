{{ config(unique_key=['vehicle_id']) }}

{{ tidemark.current_from_changes(
    ref('stg_fleet__vehicles'),
    tidemark.feed('fleet', 'vehicles'),
) }}
