{{ tidemark.typed_changes(
    source('ticketing', 'ticket_purchase_hist'),
    tidemark.feed('ticketing', 'ticket_purchase_hist'),
) }}
