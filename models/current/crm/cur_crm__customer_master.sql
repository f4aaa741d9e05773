{{ config(unique_key=['customer_id', 'row_audit_ts']) }}

{{ tidemark.current_from_changes(
    ref('stg_crm__customer_master'),
    tidemark.feed('crm', 'customer_master'),
) }}
