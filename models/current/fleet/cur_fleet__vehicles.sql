{{ config(unique_key=['vehicle_id']) }}

{{ current_from_changes(
    ref('stg_fleet__vehicles'),
    feed('fleet', 'vehicles'),
) }}
