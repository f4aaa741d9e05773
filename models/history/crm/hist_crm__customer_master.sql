{{ history_from_changes(
    ref('stg_crm__customer_master'),
    feed('crm', 'customer_master'),
) }}
