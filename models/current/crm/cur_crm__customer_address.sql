{{ config(unique_key=['customer_id', 'row_audit_ts']) }}

{{ current_from_changes(
    ref('stg_crm__customer_address'),
    feed('crm', 'customer_address'),
) }}
