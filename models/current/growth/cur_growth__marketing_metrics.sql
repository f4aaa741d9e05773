{{ config(unique_key=['date']) }}

{{ tidemark.current_from_changes(
    ref('stg_growth__marketing_metrics'),
    tidemark.feed('growth', 'marketing_metrics'),
) }}
