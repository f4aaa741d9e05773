{{ config(unique_key=['depot']) }}

{{ tidemark.current_from_changes(
    ref('stg_fleet__depots'),
    tidemark.feed('fleet', 'depots'),
) }}
