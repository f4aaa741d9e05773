{{ tidemark.history_from_changes(
    ref('stg_crm__customer_address'),
    tidemark.feed('crm', 'customer_address'),
) }}
