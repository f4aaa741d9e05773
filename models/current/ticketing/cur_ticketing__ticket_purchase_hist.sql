{{ config(unique_key=['sporting_event_ticket_id', 'purchased_by_id', 'transaction_date_time']) }}

{{ tidemark.current_from_changes(
    ref('stg_ticketing__ticket_purchase_hist'),
    tidemark.feed('ticketing', 'ticket_purchase_hist'),
) }}
