{{ history_from_changes(
    ref('stg_crm__customer_address'),
    feed('crm', 'customer_address'),
) }}
