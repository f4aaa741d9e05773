{{ tidemark.typed_changes(
    source('crm', 'customer_master'),
    tidemark.feed('crm', 'customer_master'),
) }}
