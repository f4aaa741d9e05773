{{ typed_changes(
    source('crm', 'customer_address'),
    feed('crm', 'customer_address'),
) }}
