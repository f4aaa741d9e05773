{{ config(unique_key=['delivery', 'item']) }}

{{ current_from_changes(
    ref('stg_erp__deliveries'),
    feed('erp', 'deliveries'),
) }}
