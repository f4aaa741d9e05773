{{ tidemark.history_from_changes(
    ref('stg_ticketing__ticket_purchase_hist'),
    tidemark.feed('ticketing', 'ticket_purchase_hist'),
) }}
