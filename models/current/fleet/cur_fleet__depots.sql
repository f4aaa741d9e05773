{{ config(unique_key=['depot']) }}

{{ current_from_changes(
    ref('stg_fleet__depots'),
    feed('fleet', 'depots'),
) }}
