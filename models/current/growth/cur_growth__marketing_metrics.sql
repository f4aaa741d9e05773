{{ config(unique_key=['date']) }}

{{ current_from_changes(
    ref('stg_growth__marketing_metrics'),
    feed('growth', 'marketing_metrics'),
) }}
