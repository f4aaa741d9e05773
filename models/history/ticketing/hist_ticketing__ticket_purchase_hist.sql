{{ history_from_changes(
    ref('stg_ticketing__ticket_purchase_hist'),
    feed('ticketing', 'ticket_purchase_hist'),
) }}
