{{ config(unique_key=['date', 'lead_name']) }}

{{ tidemark.current_from_changes(
    ref('stg_growth__sales_pipeline'),
    tidemark.feed('growth', 'sales_pipeline'),
) }}
