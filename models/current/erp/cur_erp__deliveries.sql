{{ config(unique_key=['delivery', 'item']) }}

{{ tidemark.current_from_changes(
    ref('stg_erp__deliveries'),
    tidemark.feed('erp', 'deliveries'),
) }}
