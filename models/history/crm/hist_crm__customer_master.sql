{{ tidemark.history_from_changes(
    ref('stg_crm__customer_master'),
    tidemark.feed('crm', 'customer_master'),
) }}
