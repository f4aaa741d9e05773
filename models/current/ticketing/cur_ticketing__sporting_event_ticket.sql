{{ config(unique_key=['id'], partition_by='sporting_event_id') }}

{{ tidemark.current_from_changes(
    ref('stg_ticketing__sporting_event_ticket'),
    tidemark.feed('ticketing', 'sporting_event_ticket'),
) }}
