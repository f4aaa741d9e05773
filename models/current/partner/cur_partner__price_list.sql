{{ config(unique_key=['article_id']) }}

{{ tidemark.current_from_changes(
    ref('stg_partner__price_list'),
    tidemark.feed('partner', 'price_list'),
) }}
