{{ tidemark.typed_changes(
    source('crm', 'customer_address'),
    tidemark.feed('crm', 'customer_address'),
) }}
