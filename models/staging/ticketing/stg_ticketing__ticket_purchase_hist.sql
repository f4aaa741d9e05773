{{ typed_changes(
    source('ticketing', 'ticket_purchase_hist'),
    feed('ticketing', 'ticket_purchase_hist'),
) }}
