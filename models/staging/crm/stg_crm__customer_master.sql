{{ typed_changes(
    source('crm', 'customer_master'),
    feed('crm', 'customer_master'),
) }}
