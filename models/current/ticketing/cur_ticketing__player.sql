{{ config(unique_key=['id']) }}

{{ current_from_changes(
    ref('stg_ticketing__player'),
    feed('ticketing', 'player'),
) }}
